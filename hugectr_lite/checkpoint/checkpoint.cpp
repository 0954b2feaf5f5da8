#include "hugectr_lite/checkpoint/checkpoint.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/checkpoint/summing_sink.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {
namespace {
namespace fs = std::filesystem;
using config::JsonNode;
using config::ObjectReader;
using nlohmann::ordered_json;

constexpr const char* kFormat = "hugectr_lite checkpoint";
constexpr int64_t kFormatVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr int64_t kMostManifest = 64 << 20;
// The last one only where there are best weights.
constexpr std::array<const char*, 3> kFiles{"weights.safetensors", "optimizer.safetensors",
                                            "best.safetensors"};
constexpr size_t kTensorFiles = 2;

// Without trailing slashes, and past a symbolic link: the link stays, what it names is replaced.
std::string place_of(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  std::error_code error;
  if (fs::is_symlink(p, error)) p = fs::weakly_canonical(p);
  return p.string();
}

// What is there where no manifest is.
const char* instead_of_checkpoint(const fs::path& place) {
  std::error_code error;
  if (!fs::exists(place, error)) return "nothing";
  return fs::is_directory(place, error) ? "a directory without manifest.json"
                                        : "something that is no directory";
}

std::string temporary_name(const std::string& place) {
  return fmt::format("{}.tmp.{}", place, getpid());
}

// Removes <place>.tmp.<pid> of processes that are gone, and of an earlier one with our own id.
void remove_stale(const std::string& place) {
  const std::string prefix = fs::path(place).filename().string() + ".tmp.";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent_directory(place), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto pid = parse_number<pid_t>(std::string_view(name).substr(prefix.size()));
    if (!pid || *pid <= 0) continue;
    if (*pid == getpid() || (kill(*pid, 0) != 0 && errno == ESRCH)) remove_path(entry.path());
  }
}

// Whether there is a checkpoint of ours to replace; DataError when there is something else.
bool has_older(const std::string& place) {
  const fs::path found = find_replaced(place);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(found, error))) return false;
  if (fs::is_directory(found, error) && fs::is_empty(found, error)) return false;
  const fs::path manifest = found / kManifest;
  if (!fs::exists(manifest, error))
    raise<DataError>("{}: expected nothing or a checkpoint to replace, found {}", place,
                     instead_of_checkpoint(found));
  // A damaged one is replaced too, as long as it says that it is ours.
  const std::string text = read_text(ReadFile(manifest), kMostManifest);
  if (text.find(kFormat) == std::string::npos)
    raise<DataError>("{}: expected a checkpoint to replace, found a manifest.json without \"{}\"",
                     place, kFormat);
  return true;
}

// Of a manifest's text without the blanks that lay it out, but for the member that holds this sum.
std::string sum_of(const std::string& text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span<const char>(text)));
  return checksum.sum().digits();
}

ordered_json json_of(const BestMetric& metric) {
  ordered_json json = {{"waited", metric.waited}};
  if (metric.any) json["best"] = metric.value;
  return json;
}

std::string without_layout(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') out += text[i++];
    if (text[i] == '"') in_string = !in_string;
    if (in_string || (text[i] != ' ' && text[i] != '\n')) out += text[i];
  }
  return out;
}

// Throws DataError where `text`, which is JSON, does not end in its own sum.
void check_sum(const std::string& text, const std::string& expected, const std::string& name) {
  std::string summed = without_layout(text);
  const std::string end = fmt::format(R"(,"xxh3_64":"{}"}})", expected);
  if (!summed.ends_with(end))
    raise<DataError>("{}: it is damaged: expected its checksum last, found ...{}", name,
                     summed.substr(summed.size() - std::min(summed.size(), end.size())));
  summed.replace(summed.size() - end.size(), end.size(), "}");
  if (const std::string found = sum_of(summed); found != expected)
    raise<DataError>("{}: it is damaged: expected checksum {}, found {}", name, expected, found);
}

std::string manifest_text(const CheckpointMeta& meta, std::span<const CheckpointFile> files) {
  ordered_json m = {{"format", kFormat},
                    {"version", kFormatVersion},
                    {"program", hlite::kVersion},
                    {"iteration", meta.iteration},
                    {"samples", meta.samples},
                    {"data_position", meta.data_position},
                    {"seed", std::to_string(meta.seed)}};
  if (meta.loss_scale > 0)
    m["loss_scale"] = {{"scale", meta.loss_scale}, {"good", meta.loss_scale_good}};
  if (meta.rate_scale != 1 || meta.plateau.any || meta.plateau.waited > 0 || meta.early_stop.any ||
      meta.early_stop.waited > 0)
    m["watch"] = {{"rate_scale", meta.rate_scale},
                  {"plateau", json_of(meta.plateau)},
                  {"early_stop", json_of(meta.early_stop)}};
  m["config"] = ordered_json::parse(meta.config);
  m["files"] = ordered_json::array();
  for (const CheckpointFile& f : files)
    m["files"].push_back({{"name", f.name}, {"bytes", f.sum.bytes}, {"xxh3_64", f.sum.digits()}});
  m["xxh3_64"] = sum_of(m.dump());
  return m.dump(2) + "\n";
}

uint64_t read_word(ObjectReader& reader, const char* key, int base) {
  const auto value = parse_number<uint64_t>(reader.string(key), base);
  if (!value)
    config::fail_expected(reader.member(key),
                          fmt::format("an unsigned 64-bit number in base {}", base));
  return *value;
}

FileSum copy_file(const std::string& from, ByteSink& sink) {
  SummingSink to(sink);
  read_pieces(ReadFile(from), [&](auto piece) { to.write(piece); });
  return to.sum();
}

BestMetric read_best_metric(ObjectReader reader) {
  BestMetric metric{.any = reader.has("best"), .waited = reader.integer("waited", {.min = 0})};
  if (metric.any) metric.value = reader.number("best");
  reader.finish();
  return metric;
}

// Writes the whole of one directory.
void write_directory(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     const OpenSink& open) {
  std::vector<CheckpointFile> files;
  for (size_t i = 0; i < kFiles.size(); ++i) {
    if (i == kTensorFiles && meta.best_weights.empty()) break;
    const auto sink = open(dir + "/" + kFiles[i]);
    const FileSum sum = i == kTensorFiles ? copy_file(meta.best_weights, *sink)
                                          : write_safetensors(*sink, i == 0 ? weights : states);
    sink->close();
    files.push_back({kFiles[i], sum});
  }
  const std::string text = manifest_text(meta, files);
  const auto sink = open(dir + "/" + kManifest);
  sink->write(std::as_bytes(std::span(text)));
  sink->close();
  sync_directory(dir);
}

std::unique_ptr<ByteSink> open_file(const std::string& path) {
  return std::make_unique<WriteFile>(path);
}

// Removes what was being written when an error struck; that error is the one to report.
class RemoveUnlessDone {
 public:
  explicit RemoveUnlessDone(std::string path) : path_(std::move(path)) {}
  RemoveUnlessDone(const RemoveUnlessDone&) = delete;
  RemoveUnlessDone& operator=(const RemoveUnlessDone&) = delete;
  ~RemoveUnlessDone() {
    std::error_code error;
    if (!done_) fs::remove_all(path_, error);
  }
  void done() { done_ = true; }

 private:
  std::string path_;
  bool done_ = false;
};
}  // namespace

void check_checkpoint_place(const std::string& dir) {
  const std::string place = place_of(dir);
  has_older(place);
  // The nearest directory that exists: those below it are created.
  fs::path parent = parent_directory(place);
  std::error_code error;
  while (!fs::exists(parent, error) && parent.has_parent_path()) parent = parent.parent_path();
  if (parent.empty()) parent = ".";
  if (!fs::is_directory(parent, error) || access(parent.c_str(), W_OK | X_OK) != 0)
    raise<DataError>("{}: expected a directory that can be written, for the checkpoint {}",
                     parent.string(), dir);
}

void save_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     const OpenSink& open) {
  const std::string place = place_of(dir);
  const bool older = has_older(place);
  std::error_code error;
  fs::create_directories(parent_directory(place), error);  // when it fails, the next one tells
  remove_stale(place);

  const std::string temporary = temporary_name(place);
  if (!fs::create_directory(temporary, error))
    raise<FileError>("{}: cannot create the directory: {}", temporary, error.message());
  RemoveUnlessDone cleanup(temporary);
  try {
    write_directory(temporary, meta, weights, states, open ? open : OpenSink(open_file));
  } catch (const FileError& failure) {
    if (!older) throw;
    raise<FileError>("{}; the checkpoint {} is untouched", failure.what(), dir);
  }
  replace_path(temporary, place);
  cleanup.done();
}

CheckpointMeta parse_manifest(const std::string& text, const std::string& name) {
  return config::as_data_error([&] {
    const JsonNode root = JsonNode::parse(text, name);
    ObjectReader reader(root);
    reader.choice("format", {kFormat});
    CheckpointMeta meta;
    meta.program = reader.string("program");
    if (const int64_t version = reader.integer("version"); version != kFormatVersion)
      raise<DataError>("{}: version: expected {}, found {} (written by program {}, this is {})",
                       name, kFormatVersion, version, meta.program, hlite::kVersion);
    meta.iteration = reader.integer("iteration", {.min = 0});
    meta.samples = reader.integer("samples", {.min = 0});
    meta.data_position = reader.integer("data_position", {.min = 0});
    meta.seed = read_word(reader, "seed", 10);
    if (const JsonNode* scale = reader.find("loss_scale")) {
      ObjectReader scale_reader(*scale);
      meta.loss_scale = scale_reader.number("scale", {.min = 1, .max = 0x1p24});
      meta.loss_scale_good = scale_reader.integer("good", {.min = 0});
      scale_reader.finish();
    }
    if (const JsonNode* watch = reader.find("watch")) {
      ObjectReader of(*watch);
      meta.rate_scale = static_cast<float>(of.number("rate_scale", {.min = 0, .max = 1}));
      meta.plateau = read_best_metric(of.object("plateau"));
      meta.early_stop = read_best_metric(of.object("early_stop"));
      of.finish();
    }
    meta.config = reader.object("config").node().dump();

    const std::vector<JsonNode>& files = reader.list_or_empty("files");
    if (files.size() < kTensorFiles || files.size() > kFiles.size())
      raise<DataError>("{}: files: expected a list of {} or {}, found {}", name, kTensorFiles,
                       kFiles.size(), files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      ObjectReader file(files[i]);
      CheckpointFile f;
      f.name = file.choice("name", {kFiles[i]});
      f.sum.bytes = file.integer("bytes", {.min = 0});
      f.sum.xxh3_64 = read_word(file, "xxh3_64", 16);
      file.finish();
      meta.files.push_back(std::move(f));
    }
    const std::string sum = reader.string("xxh3_64");
    reader.finish();
    check_sum(text, sum, name);
    return meta;
  });
}

CheckpointMeta read_manifest(const std::string& dir) {
  const std::string place = find_replaced(place_of(dir)), path = place + "/" + kManifest;
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found)
    raise<DataError>("{}: expected a checkpoint, found {}", dir, instead_of_checkpoint(place));
  const ReadFile file(path);
  return parse_manifest(read_text(file, kMostManifest), file.name());
}

// Into `tensors`, file number `index` of kFiles.
static void load_file(const std::string& dir, const CheckpointMeta& meta, size_t index,
                      std::span<const TensorRef> tensors) {
  HLITE_CHECK(meta.files.size() > index, "the manifest of {} was not read", dir);
  const FileSum& expected = meta.files[index].sum;
  const ReadFile file(find_replaced(place_of(dir)) + "/" + kFiles[index]);
  if (file.size() != expected.bytes)
    raise<DataError>("{}: expected {} bytes (manifest.json), found {}", file.name(), expected.bytes,
                     file.size());
  const FileSum found = SafetensorsReader(file).read_all(tensors);
  if (found.xxh3_64 != expected.xxh3_64)
    raise<DataError>("{}: it is damaged: expected checksum {} (manifest.json), found {}",
                     file.name(), expected.digits(), found.digits());
}

void load_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states) {
  load_file(dir, meta, 0, weights);
  load_file(dir, meta, 1, states);
}

void load_checkpoint_weights(const std::string& dir, const CheckpointMeta& meta,
                             std::span<const TensorRef> weights) {
  load_file(dir, meta, 0, weights);
}

std::string best_weights_file(const std::string& dir, const CheckpointMeta& meta) {
  if (meta.files.size() <= kTensorFiles) return {};
  const ReadFile file(find_replaced(place_of(dir)) + "/" + kFiles[kTensorFiles]);
  Checksum checksum;
  read_pieces(file, [&](auto piece) { checksum.add(piece); });
  const FileSum expected = meta.files[kTensorFiles].sum, found = checksum.sum();
  if (found.bytes != expected.bytes || found.xxh3_64 != expected.xxh3_64)
    raise<DataError>(
        "{}: it is damaged: expected {} bytes with checksum {} (manifest.json), found "
        "{} with {}",
        file.name(), expected.bytes, expected.digits(), found.bytes, found.digits());
  return file.name();
}

bool is_checkpoint(const std::string& model) {
  std::error_code error;
  return fs::is_directory(find_replaced(place_of(model)), error);
}

std::string weights_file(const std::string& dir) {
  return find_replaced(place_of(dir)) + "/" + kFiles[0];
}

void save_weights(const std::string& path, std::span<const TensorRef> tensors) {
  const std::string place = place_of(path);
  std::error_code error;
  if (fs::exists(place, error) && !fs::is_regular_file(place, error))
    raise<DataError>("{}: expected nothing or a file to replace, found something else", path);
  const std::string temporary = temporary_name(place);
  RemoveUnlessDone cleanup(temporary);
  WriteFile file(temporary);
  write_safetensors(file, tensors);
  file.close();
  replace_path(temporary, place);
  cleanup.done();
}

void load_weights(const std::string& path, std::span<const TensorRef> tensors) {
  const ReadFile file(path);
  SafetensorsReader(file).read_all(tensors);
}

}  // namespace hlite::checkpoint
