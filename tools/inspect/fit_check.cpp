#include "tools/inspect/fit_check.h"

#include <filesystem>

#include "data_reader/manifest.h"
#include "data_reader/open_source.h"
#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/config/slot_sizes.h"
#include "hugectr_lite/core/error.h"

namespace hlite::tools {
namespace {

namespace fs = std::filesystem;

// What turns such a file into one that can be read.
std::string conversion_advice(const FileFacts& file, const config::DataConfig& data) {
  switch (file.kind) {
    case FileKind::kCriteoTsv:
      return fmt::format("prepare it: criteo_prep --train {} --out DIR", file.path);
    case FileKind::kTable:
      return fmt::format("prepare it: csv_prep --schema SCHEMA.json --train {} --out DIR",
                         file.path);
    case FileKind::kNorm:
      return data.is_raw() ? "set \"format\": \"Norm\" and name a file list with this file in it"
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
      return data.is_raw() ? "" : "set \"format\": \"RawAsync\" if this is raw data";
    default:
      return "";
  }
}

void check_kind(const FitCase& fit, const FileFacts& file, FitReport& report) {
  const config::DataConfig& data = fit.config.data;
  if (file.compression != Compression::kNone) {
    return report.fail(
        "compressed",
        fmt::format("{} is {}; the config expects {} data, uncompressed", fit.path, describe(file),
                    config::data_format_name(data.format)),
        file.kind == FileKind::kBinary ? "decompress it" : conversion_advice(file, data));
  }
  if (file.kind == (data.is_raw() ? FileKind::kBinary : FileKind::kNormList)) return;
  const bool norm_file = !data.is_raw() && file.kind == FileKind::kNorm;
  report.fail(norm_file ? "norm_file" : "wrong_format",
              fmt::format("{} is a {} ({}: {}); the config expects {} (\"format\": \"{}\")",
                          fit.path, describe(file), word(file.sure), file.why,
                          data.is_raw() ? "raw data" : "a list of Norm files",
                          config::data_format_name(data.format)),
              conversion_advice(file, data));
}

// The records that a manifest (which `says`) describes against the config's.
void check_layout(const FitCase& fit, const data::Manifest& m, const std::string& says,
                  FitReport& report) {
  if (m.dense_dim + std::ssize(m.hotness) == 0) return;
  const auto found = data::RawFormat::from(m), expected = data::RawFormat::from(fit.config.data);
  const char* fault = found.record_bytes() != expected.record_bytes() ? "record_size"
                      : found.dense_dim != expected.dense_dim         ? "dense_dim"
                      : found.float_label != expected.float_label
                          ? (found.float_label ? "float_label" : "integer_label")
                      : found.float_dense != expected.float_dense
                          ? (found.float_dense ? "float_dense" : "integer_dense")
                      : found.keys.hotness != expected.keys.hotness ? "layout_of_manifest"
                                                                    : nullptr;
  if (fault == nullptr) return;
  const auto text = [](const data::RawFormat& f) {
    return fmt::format("{} label, {} {} dense values, {} keys of {} slots",
                       f.float_label ? "float" : "integer", f.dense_dim,
                       f.float_dense ? "float" : "integer", f.keys.columns, f.keys.slots());
  };
  report.fail(
      fault,
      fmt::format("{}: {} records of {} bytes ({}); the config says {} ({})", fit.path, says,
                  found.record_bytes(), text(found), expected.record_bytes(), text(expected)),
      "let the config say what the manifest says");
}

// The tables that a manifest wants against the config's.
void check_tables(const FitCase& fit, const data::ManifestEntry& entry, const std::string& says,
                  FitReport& report) {
  const std::vector<int64_t>& sizes = entry.manifest.slot_sizes;
  if (fit.slot_rows.empty() || sizes.empty() || fit.slot_rows == sizes) return;
  const size_t slots = std::min(fit.slot_rows.size(), sizes.size());
  size_t s = 0;
  while (s < slots && fit.slot_rows[s] >= sizes[s]) ++s;
  if (s == slots) {
    report.notes.push_back(fmt::format("{} smaller tables than the config has", says));
    return;
  }
  report.fail("tables_of_manifest",
              fmt::format("{}: {} {} rows for the table of slot {}; the config's slot_size_array "
                          "says {}",
                          fit.path, says, sizes[s], s, fit.slot_rows[s]),
              fmt::format("\"slot_size_array\": \"{}\" takes the sizes from there", entry.path));
}

// What a manifest beside the file says against the config.
void check_manifest(const FitCase& fit, const FileFacts& file, FitReport& report) {
  const auto entry = data::find_manifest_of(fit.path, data::DamagedManifest::kPassOver);
  if (!entry) return;
  const data::Manifest& m = entry->manifest;
  const std::string says = fmt::format("{} says", entry->path);
  if (entry->file.bytes > 0 && file.kind == FileKind::kBinary && entry->file.bytes != file.bytes) {
    return report.fail(
        "size_of_manifest",
        fmt::format("{}: {} {} bytes, found {}", fit.path, says, entry->file.bytes, file.bytes),
        file.bytes < entry->file.bytes ? "the file was cut short: copy or prepare it again"
                                       : "the file is not the one that was prepared");
  }
  if (fit.config.data.is_raw() && m.format.find("raw") != std::string::npos) {
    check_layout(fit, m, says, report);
    if (!report.fits()) return;
  }
  check_tables(fit, *entry, says, report);
  const bool train = fit.role == config::Split::kTrain;
  if (train != (entry->file.role == "train")) {
    report.fail("wrong_role",
                fmt::format("{}: {} that this is {} data; the config uses it as \"{}\"", fit.path,
                            says, entry->file.role, role_name(fit)),
                "exchange source and eval_source");
  }
}

// Both files of the config side by side.
void check_other_file(const FitCase& fit, FitReport& report) {
  const config::DataConfig& data = fit.config.data;
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
  if (!data.is_raw() || !data.num_samples || !data.eval_num_samples) return;
  const int64_t record = data::RawFormat::from(data).record_bytes();
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

}  // namespace

// Reads it as training would.
static void check_parquet(const FitCase& fit, FitReport& report) {
  const config::DataConfig& data = fit.config.data;
  std::vector<int64_t> rows = fit.slot_rows;
  if (rows.empty()) rows.assign(data.key_layout().hotness.size(), kNoKey);
  data::SourceOptions once{.repeat = false, .max_samples = fit.wanted};
  try {
    const auto source = data::open_source(data, fit.path, fit.role, 4096, rows, once);
    while (source->next().size > 0) {
    }
  } catch (const DataError& error) {
    report.fail("parquet", error.what());
  }
}

std::string role_name(const FitCase& fit) {
  return fit.role == config::Split::kTrain ? "source" : "eval_source";
}

void check_count(const FitCase& fit, const char* found, int64_t records, FitReport& report) {
  const auto& wanted = fit.config.data.samples_of(fit.role);
  if (!wanted || *wanted <= records) return;
  const char* key = config::DataConfig::samples_key(fit.role);
  report.fail("num_samples",
              fmt::format("{}: {} {} samples; the config's {} says {}", fit.path, found, records,
                          key, *wanted),
              fmt::format("\"{}\": {}", key, records));
}

std::vector<int64_t> slot_rows_of(const config::TrainConfig& config) {
  constexpr const char* kSizes = "slot_size_array";
  std::vector<int64_t> rows;
  for (const config::SparseInputConfig& input : config.data.sparse) {
    for (const config::JsonNode* layer : config.layers) {
      const config::JsonNode* bottom = layer->find("bottom");
      const config::JsonNode* block = layer->find("sparse_embedding_hparam");
      if (bottom == nullptr || bottom->kind() != config::JsonNode::Kind::kString ||
          bottom->string() != input.top || block == nullptr || block->find(kSizes) == nullptr) {
        continue;
      }
      config::ObjectReader reader(*block, false);
      const std::vector<int64_t> sizes = config::read_slot_sizes(reader, config.directory);
      rows.insert(rows.end(), sizes.begin(), sizes.end());
      break;
    }
  }
  const size_t slots = config.data.key_layout().hotness.size();
  if (rows.size() == slots) return rows;
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
  if (fit.config.data.format == config::DataFormat::kParquet) {
    check_parquet(fit, report);
    if (report.fits()) check_other_file(fit, report);
    return report;
  }
  const FileFacts file = detect_file(fit.path);
  if (file.kind == FileKind::kEmpty) {
    report.fail("empty_file", fmt::format("{} has no bytes", fit.path));
    return report;
  }
  check_kind(fit, file, report);
  if (report.fits()) check_manifest(fit, file, report);
  if (report.fits()) check_other_file(fit, report);
  if (!report.fits()) return report;
  if (fit.config.data.is_raw()) {
    check_raw(fit, file, report);
  } else {
    check_norm(fit, file, report);
  }
  return report;
}

}  // namespace hlite::tools
