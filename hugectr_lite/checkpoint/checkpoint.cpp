#include "hugectr_lite/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/checkpoint/manifest_sum.h"
#include "hugectr_lite/checkpoint/staged_file.h"
#include "hugectr_lite/config/block.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::checkpoint {
namespace {
namespace fs = std::filesystem;
using config::Block;
using config::JsonNode;
using config::kRequired;
using nlohmann::ordered_json;

constexpr const char* kFormat = "hugectr_lite checkpoint";
constexpr int64_t kFormatVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr int64_t kMaxManifest = 64 << 20;
// The last one only where there are best weights.
constexpr std::array<const char*, 3> kFiles{"weights.safetensors", "optimizer.safetensors",
                                            "best.safetensors"};
constexpr size_t kTensorFiles = 2;
constexpr const char* kPreparation = "preparation";
constexpr const char* kTrainedOn = "trained_on";  // member and metadata

// Without trailing slashes, and past a symbolic link: the link stays, what it names is replaced.
std::string place_of(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  std::error_code error;
  if (fs::is_symlink(p, error)) p = fs::weakly_canonical(p);
  return p.string();
}

// Says what is there in place of a manifest.
const char* instead_of_checkpoint(const fs::path& place) {
  std::error_code error;
  if (!fs::exists(place, error)) return "nothing";
  return fs::is_directory(place, error) ? "a directory without manifest.json"
                                        : "something that is no directory";
}

// Returns true if there is a checkpoint of ours to replace; DataError when there is something else.
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
  const std::string text = read_text(ReadFile(manifest), kMaxManifest);
  if (text.find(kFormat) == std::string::npos)
    raise<DataError>("{}: expected a checkpoint to replace, found a manifest.json without \"{}\"",
                     place, kFormat);
  return true;
}

ordered_json json_of(const BestMetric& metric) {
  ordered_json json = {{"waited", metric.waited}};
  if (metric.any) json["best"] = metric.value;
  if (metric.of_loss) json["of_loss"] = true;
  if (metric.iteration > 0) json["iteration"] = metric.iteration;
  return json;
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
  if (!meta.trained_on.empty()) m[kTrainedOn] = ordered_json::parse(meta.trained_on);
  if (meta.run != 0) m["run"] = std::to_string(meta.run);
  if (!meta.followed.file.empty())
    m["followed"] = {{"file", meta.followed.file}, {"batches", meta.followed.batches}};
  m["config"] = ordered_json::parse(meta.config);
  m["files"] = ordered_json::array();
  for (const CheckpointFile& f : files)
    m["files"].push_back({{"name", f.name}, {"bytes", f.sum.bytes}, {"xxh3_64", f.sum.digits()}});
  return with_sum(std::move(m));
}

void declare_word(Block& s, const char* key, uint64_t* field, int base,
                  const config::Need& need = kRequired) {
  s.value(key, need, [&](const JsonNode& node) {
    const auto value = parse_number<uint64_t>(config::to_string(node), base);
    if (!value)
      config::fail_expected(node, fmt::format("an unsigned 64-bit number in base {}", base));
    *field = *value;
  });
}

void copy_file(const ByteSource& from, ByteSink& sink) {
  read_pieces(from, [&](auto piece) { sink.write(piece); });
}

void declare(Block& s, BestMetric& metric) {
  metric.any = s.number("best", &metric.value, {});
  s.integer("waited", &metric.waited, {.min = 0}, "", kRequired);
  s.boolean("of_loss", &metric.of_loss);
  s.integer("iteration", &metric.iteration, {.min = 0}, "");
}

void declare(Block& s, CheckpointMeta& meta) {
  s.integer("iteration", &meta.iteration, {.min = 0}, "", kRequired);
  s.integer("samples", &meta.samples, {.min = 0}, "", kRequired);
  s.integer("data_position", &meta.data_position, {.min = 0}, "", kRequired);
  declare_word(s, "seed", &meta.seed, 10);
  if (auto scale = s.object("loss_scale")) {
    scale->number("scale", &meta.loss_scale, {.min = 1, .max = 0x1p24}, "", kRequired);
    scale->integer("good", &meta.loss_scale_good, {.min = 0}, "", kRequired);
  }
  if (auto watch = s.object("watch")) {
    watch->number("rate_scale", &meta.rate_scale, {.min = 0}, "", kRequired);
    if (auto plateau = watch->object("plateau", "", kRequired)) declare(*plateau, meta.plateau);
    if (auto stop = watch->object("early_stop", "", kRequired)) declare(*stop, meta.early_stop);
  }
  declare_word(s, "run", &meta.run, 10, {});
  if (auto followed = s.object("followed")) {
    followed->text("file", &meta.followed.file, "", kRequired);
    followed->integer("batches", &meta.followed.batches, {.min = meta.data_position}, "",
                      kRequired);
  }
  s.value(kTrainedOn, {}, [&](const JsonNode& node) { meta.trained_on = node.dump(); });
  s.value("config", kRequired, [&](const JsonNode& node) {
    config::to_object(node);
    meta.config = node.dump();
  });
  s.value("files", kRequired, [&](const JsonNode& node) {
    const std::vector<JsonNode>& files = config::to_list(node);
    if (files.size() < kTensorFiles || files.size() > kFiles.size())
      config::fail_expected(node, fmt::format("a list of {} or {}", kTensorFiles, kFiles.size()));
    for (size_t i = 0; i < files.size(); ++i) {
      CheckpointFile& f = meta.files.emplace_back();
      config::read_object(files[i], [&](Block& of) {
        of.choice("name", &f.name, {{kFiles[i], kFiles[i]}}, "", kRequired);
        of.integer("bytes", &f.sum.bytes, {.min = 0}, "", kRequired);
        declare_word(of, "xxh3_64", &f.sum.xxh3_64, 16);
      });
    }
  });
}

// Writes file number `index` of kFiles.
FileSum write_tensors(ByteSink& sink, size_t index, const CheckpointMeta& meta,
                      std::span<const TensorRef> weights, std::span<const TensorRef> states) {
  if (index < kTensorFiles) return write_safetensors(sink, index == 0 ? weights : states);
  const SafetensorsReader best(*meta.best_weights);
  return write_safetensors(sink, best.refs());  // its metadata are in the manifest
}

// Writes the whole of one directory.
void write_directory(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     const OpenSink& open) {
  std::vector<CheckpointFile> files;
  for (size_t i = 0; i < kFiles.size(); ++i) {
    if (i == kTensorFiles && !meta.best_weights) break;
    const auto sink = open(dir + "/" + kFiles[i]);
    const FileSum sum = write_tensors(*sink, i, meta, weights, states);
    sink->close();
    files.push_back({kFiles[i], sum});
  }
  for (const CopiedFile& file : meta.preparation) {
    const fs::path path = fs::path(dir) / kPreparation / file.name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);  // when it fails, opening says so
    const auto sink = open(path.string());
    copy_file(ReadFile(file.from), *sink);
    sink->close();
    sync_directory(path.parent_path());
  }
  const std::string text = manifest_text(meta, files);
  const auto sink = open(dir + "/" + kManifest);
  sink->write(std::as_bytes(std::span(text)));
  sink->close();
  sync_directory(dir);
}

std::unique_ptr<ByteSink> open_file(const std::string& path) {
  return std::make_unique<StagedFile>(path);
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
  expect_output_place(dir);
  const std::string place = place_of(dir);
  struct statx status {};
  if (statx(AT_FDCWD, place.c_str(), 0, STATX_BASIC_STATS, &status) == 0 &&
      (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
    raise<DataError>(
        "{}: expected a directory that can be replaced, found one where a file system is mounted; "
        "name one inside it",
        dir);
  std::error_code unknown;
  if (fs::equivalent(place, ".", unknown))
    raise<DataError>(
        "{}: expected a directory that can be replaced, found the working directory; name one "
        "inside it",
        dir);
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
  expect_output_place(dir);
  const std::string place = place_of(dir);
  const bool older = has_older(place);
  std::error_code error;
  fs::create_directories(parent_directory(place), error);  // if it fails, the next call reports it
  const std::string temporary = temporary_directory(place);
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
    if (const JsonNode* const tool = root.find("tool"))
      raise<DataError>(
          "{}: expected the manifest of a {}, which train --save writes, found that of data that {} "
          "has prepared",
          name, kFormat, config::to_string(*tool));
    CheckpointMeta meta;
    std::string sum;
    config::read_object(root, [&](Block& s) {
      std::string format, program;
      int64_t version = 0;
      s.choice("format", &format, {{kFormat, kFormat}}, "", kRequired);
      s.text("program", &program, "", kRequired);
      if (s.integer("version", &version, {}, "", kRequired) && version != kFormatVersion)
        raise<DataError>("{}: version: expected {}, found {} (written by program {}, this is {})",
                         name, kFormatVersion, version, program, hlite::kVersion);
      meta.program = program;
      declare(s, meta);
      s.text("xxh3_64", &sum, "", kRequired);
    });
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
  return parse_manifest(read_text(file, kMaxManifest), file.name());
}

// The tensors as the file has them: the first rows of tables that have grown since.
static std::vector<TensorRef> fit_tables(const SafetensorsReader& file,
                                         std::span<const TensorRef> tensors, TableSizes sizes) {
  std::vector<TensorRef> fitted(tensors.begin(), tensors.end());
  const bool same_names =
      fitted.size() == file.tensors().size() &&
      std::all_of(fitted.begin(), fitted.end(), [&](const auto& t) { return file.find(t.name); });
  if (!same_names) return fitted;  // the reader names the missing ones
  for (TensorRef& t : fitted) {
    const auto* const entry = file.find(t.name);
    if (!t.grows || entry->shape.size() != 2 || t.shape.size() != 2 ||
        entry->shape[1] != t.shape[1])
      continue;  // the reader reports it
    const int64_t before = entry->shape[0];
    if (before > t.shape[0])
      raise<DataError>(
          "{}: {}: expected at most the {} rows of the model's table, found {}: a "
          "table cannot shrink",
          file.name(), t.name, t.shape[0], before);
    if (before < t.shape[0] && sizes == TableSizes::kSame)
      raise<DataError>(
          "{}: {}: expected the {} rows of the model's table, found {}; --grow goes on "
          "with tables that have grown",
          file.name(), t.name, t.shape[0], before);
    t.shape[0] = before;
  }
  return fitted;
}

// File number `index` of kFiles.
static WeightsFile file_in(const std::string& dir, const CheckpointMeta& meta, size_t index) {
  HLITE_CHECK(meta.files.size() > index, "the manifest of {} was not read", dir);
  return {find_replaced(place_of(dir)) + "/" + kFiles[index], meta.files[index].sum};
}

static void load_file(const WeightsFile& from, std::span<const TensorRef> tensors,
                      TableSizes sizes) {
  const ReadFile file(from.path);
  if (from.sum && file.size() != from.sum->bytes)
    raise<DataError>("{}: expected {} bytes (manifest.json), found {}", file.name(),
                     from.sum->bytes, file.size());
  const SafetensorsReader reader(file);
  const FileSum found =
      from.sum ? reader.read_all(fit_tables(reader, tensors, sizes)) : reader.read_all(tensors);
  if (from.sum && found.xxh3_64 != from.sum->xxh3_64)
    raise<DataError>("{}: it is damaged: expected checksum {} (manifest.json), found {}",
                     file.name(), from.sum->digits(), found.digits());
  if (!from.sum) file.expect_unchanged();
}

void load_checkpoint(const std::string& dir, const CheckpointMeta& meta,
                     std::span<const TensorRef> weights, std::span<const TensorRef> states,
                     TableSizes sizes) {
  load_file(file_in(dir, meta, 0), weights, sizes);
  load_file(file_in(dir, meta, 1), states, sizes);
}

void forget_evaluations(CheckpointMeta& meta) {
  meta.plateau = meta.early_stop = {};
  meta.files.resize(kTensorFiles);
}

static bool has_best(const CheckpointMeta& meta) { return meta.files.size() > kTensorFiles; }

WeightsFile weights_in(const std::string& dir, const CheckpointMeta& meta, Which which) {
  return file_in(dir, meta, which == Which::kBest && has_best(meta) ? kTensorFiles : 0);
}

WeightsFile weights_in(const std::string& model, Which which) {
  if (!is_checkpoint(model)) return {model};
  return weights_in(model, read_manifest(model), which);
}

void verify_weights(const ByteSource& file, const FileSum& expected) {
  Checksum checksum;
  read_pieces(file, [&](auto piece) { checksum.add(piece); });
  const FileSum found = checksum.sum();
  if (found.bytes != expected.bytes || found.xxh3_64 != expected.xxh3_64)
    raise<DataError>(
        "{}: it is damaged: expected {} bytes with checksum {} (manifest.json), found "
        "{} with {}",
        file.name(), expected.bytes, expected.digits(), found.bytes, found.digits());
}

std::unique_ptr<ReadFile> open_best_weights(const std::string& dir, const CheckpointMeta& meta) {
  if (!has_best(meta)) return nullptr;
  const WeightsFile best = weights_in(dir, meta);
  auto file = std::make_unique<ReadFile>(best.path);
  verify_weights(*file, *best.sum);
  return file;
}

bool is_checkpoint(const std::string& model) {
  std::error_code error;
  return fs::is_directory(find_replaced(place_of(model)), error);
}

std::string preparation_in(const std::string& model) {
  const fs::path folder = fs::path(find_replaced(place_of(model))) / kPreparation;
  std::error_code error;
  return fs::is_directory(folder, error) ? folder.string() : "";
}

std::string last_states_file(const std::string& dir) {
  return find_replaced(place_of(dir)) + "/" + kFiles[1];
}

std::string trained_on(const std::string& model) {
  if (is_checkpoint(model)) return read_manifest(model).trained_on;
  const ReadFile file(model);
  const Metadata metadata = SafetensorsReader(file).metadata();
  const auto found = metadata.find(kTrainedOn);
  return found == metadata.end() ? "" : found->second;
}

FileSum save_weights(const std::string& path, std::span<const TensorRef> tensors,
                     const std::string& trained_on) {
  expect_output_place(path);
  const std::string place = place_of(path);
  std::error_code error;
  if (fs::exists(place, error) && !fs::is_regular_file(place, error))
    raise<DataError>("{}: expected nothing or a file to replace, found something else", path);
  FileSum sum;
  replace_file(place, [&](const std::string& temporary) {
    StagedFile file(temporary);
    sum = write_safetensors(file, tensors,
                            trained_on.empty() ? Metadata{} : Metadata{{kTrainedOn, trained_on}});
    file.close();
  });
  sync_directory(parent_directory(place));
  return sum;
}

void load_weights(const WeightsFile& weights, std::span<const TensorRef> tensors) {
  load_file(weights, tensors, TableSizes::kSame);
}

}  // namespace hlite::checkpoint
