#include "hugectr_lite/preparation/inspect/fit_check.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "data_reader/manifest_fit.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/error.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;

// Says what turns such a file into one that can be read.
std::string conversion_advice(const FileFacts& file, const config::DataConfig& data) {
  switch (file.kind) {
    case FileKind::kCriteoTsv:
      return fmt::format(
          "prepare it: criteo_prep --train {} --out DIR; or set \"format\": \"Criteo\"", file.path);
    case FileKind::kText:
      return fmt::format("prepare it, if it is a table: csv_prep --train {} --out DIR", file.path);
    case FileKind::kNorm:
      return !data.format->checksums
                 ? "set \"format\": \"Norm\" and name a file list with this file in it"
                 : "name a file list: a text file with the number of files and their "
                   "paths, a line each";
    case FileKind::kNormList:
      return "set \"format\": \"Norm\"";
    case FileKind::kManifest:
      return "name one of the files that the manifest lists";
    case FileKind::kSafetensors:
    case FileKind::kCheckpoint:
      return "weights go to --init or --resume";
    case FileKind::kParquet:
      return "set \"format\": \"Parquet\"";
    case FileKind::kBinary:
      return data.format->prepared == std::string_view("raw")
                 ? ""
                 : "set \"format\": \"RawAsync\" if this is raw data";
    default:
      return "";
  }
}

void check_kind(const FitCase& fit, const FileFacts& file, FileKind wanted, FitReport& report) {
  if (file.kind == wanted && file.compression == Compression::kNone) return;
  const config::DataConfig& data = fit.config.data;
  if (file.compression != Compression::kNone) {
    return report.fail(
        "compressed",
        fmt::format("{} is {}; the config expects {} data, uncompressed", fit.path, describe(file),
                    data.format->name),
        file.kind == FileKind::kBinary ? "decompress it" : conversion_advice(file, data));
  }
  const bool norm_file = wanted == FileKind::kNormList && file.kind == FileKind::kNorm;
  report.fail(
      norm_file ? "norm_file" : "wrong_format",
      fmt::format("{} is a {} ({}: {}); the config expects {} (\"format\": \"{}\")", fit.path,
                  describe(file), word(file.sure), file.why, data.format->files, data.format->name),
      conversion_advice(file, data));
}

// Calls visit(layer, its hparam, the slots of its inputs) for each embedding layer.
template <typename Visit>
void for_each_embedding(const config::TrainConfig& config, Visit&& visit) {
  std::map<std::string, std::vector<int64_t>> slots_of;
  int64_t slot = 0;
  for (const config::SparseInputConfig& input : config.data.sparse)
    for (int64_t s = 0; s < input.slot_num; ++s) slots_of[input.top].push_back(slot++);
  for (const config::JsonNode* layer : config.layers) {
    const config::JsonNode* bottom = layer->find("bottom");
    const config::JsonNode* hparam = layer->find("sparse_embedding_hparam");
    if (bottom == nullptr || hparam == nullptr) continue;
    std::vector<int64_t> slots;
    for (const std::string& name : config::to_strings(*bottom))
      slots.insert(slots.end(), slots_of[name].begin(), slots_of[name].end());
    visit(*layer, *hparam, slots);
  }
}

std::string name_of(const config::JsonNode& layer) {
  for (const char* key : {"name", "top"})
    if (const config::JsonNode* name = layer.find(key)) return config::to_string(*name);
  return "";
}

// Do the slots that share tables share the manifest's vocabularies, and the other way round?
void check_shared_tables(const FitCase& fit, const data::ManifestEntry& entry, FitReport& report) {
  for_each_embedding(fit.config, [&](const config::JsonNode& layer, const config::JsonNode& hparam,
                                     const std::vector<int64_t>& slots) {
    const config::JsonNode* written = hparam.find("slot_tables");
    if (written == nullptr) {
      if (auto text = data::find_shareable_tables(entry, name_of(layer), slots))
        report.notes.push_back(std::move(*text));
      return;
    }
    const std::vector<int64_t> tables = config::to_integers(*written);
    if (const auto misfit = data::find_mixed_vocabularies(entry, name_of(layer), slots, tables))
      report.fail(misfit->fault, misfit->message, misfit->advice);
  });
}

// Compares file and config with the manifest next to the file.
void check_manifest(const FitCase& fit, FitReport& report) {
  const auto entry = data::find_manifest_of(fit.path, data::DamagedManifest::kPassOver);
  if (!entry) return;
  auto misfit = data::find_stale(*entry, fit.path);
  if (!misfit) misfit = data::find_misfit(*entry, fit.path, fit.config.data, fit.slot_rows);
  if (misfit) return report.fail(misfit->fault, misfit->message, misfit->advice);
  check_shared_tables(fit, *entry, report);
  const bool train = fit.role == config::Split::kTrain;
  if (report.fits() && train != (entry->file.role == "train")) {
    report.fail("wrong_role",
                fmt::format("{}: {} says that this is {} data; the config uses it as \"{}\"",
                            fit.path, entry->path, entry->file.role, role_name(fit)),
                "exchange source and eval_source");
  }
}

// Both files of the config side by side.
void check_other_file(const FitCase& fit, FitReport& report) {
  const config::DataConfig& data = fit.config.data;
  if (data.eval_source.empty()) return;
  const std::string train = fit.config.resolve(data.source),
                    eval = fit.config.resolve(data.eval_source);
  std::error_code error;
  if (!fs::exists(train, error) || !fs::exists(eval, error)) return;
  if (fs::equivalent(train, eval, error)) {
    if (fit.role == config::Split::kEval) {
      report.fail("same_file", fmt::format("{} is both source and eval_source: the model would be "
                                           "tested on what it was trained on",
                                           eval));
    }
    return;
  }
  const int64_t record = data::record_format(data).record_bytes(data);
  if (record == 0 || !data.num_samples || !data.eval_num_samples) return;
  const auto records = [&](const std::string& path) {
    return static_cast<int64_t>(fs::file_size(path, error)) / record;
  };
  if (records(train) == *data.eval_num_samples && records(eval) == *data.num_samples &&
      *data.num_samples != *data.eval_num_samples) {
    report.fail("swapped_files",
                fmt::format("{} has the {} samples of eval_num_samples, {} the {} of num_samples",
                            train, *data.eval_num_samples, eval, *data.num_samples),
                "exchange source and eval_source");
  }
}

// What files of a format are seen to be; nothing for those that only their reader knows.
std::optional<FileKind> kind_of(const config::DataFormat& format) {
  static const std::map<std::string_view, FileKind> kKinds = {{"Raw", FileKind::kBinary},
                                                              {"RawAsync", FileKind::kBinary},
                                                              {"Norm", FileKind::kNormList},
                                                              {"Criteo", FileKind::kCriteoTsv}};
  const auto found = kKinds.find(format.name);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string role_name(const FitCase& fit) {
  return fit.role == config::Split::kTrain ? "source" : "eval_source";
}

std::vector<int64_t> slot_rows_of(const config::TrainConfig& config) {
  constexpr const char* kSizes = "slot_size_array";
  const size_t slots = config.data.key_layout().hotness.size();
  std::vector<int64_t> rows(slots, 0);  // those of the first layer that says so count
  for_each_embedding(
      config, [&](const auto&, const config::JsonNode& hparam, const std::vector<int64_t>& of) {
        if (hparam.find(kSizes) == nullptr) return;
        const std::vector<int64_t> sizes =
            config::read_slot_sizes(*hparam.find(kSizes), config.directory);
        for (size_t i = 0; i < std::min(of.size(), sizes.size()); ++i)
          if (int64_t& known = rows[static_cast<size_t>(of[i])]; known == 0) known = sizes[i];
      });
  if (std::find(rows.begin(), rows.end(), 0) == rows.end()) return rows;
  return config.data.slot_size_array.size() == slots ? config.data.slot_size_array
                                                     : std::vector<int64_t>();
}

FitReport check_fit(const FitCase& fit) {
  FitReport report;
  if (!fs::exists(fit.path)) {
    report.fail("missing_file", fmt::format("{} (\"{}\") is not there", fit.path, role_name(fit)),
                "paths in a config are relative to the config file, then to the working directory");
    return report;
  }
  if (const auto kind = kind_of(*fit.config.data.format)) {
    const FileFacts file = detect_file(fit.path);
    if (file.kind == FileKind::kEmpty) {
      report.fail("empty_file", fmt::format("{} has no bytes", fit.path));
      return report;
    }
    check_kind(fit, file, *kind, report);
    if (report.fits()) check_manifest(fit, report);
  }
  if (report.fits()) check_other_file(fit, report);
  if (report.fits()) check_records(fit, report);
  return report;
}

}  // namespace hlite::prep
