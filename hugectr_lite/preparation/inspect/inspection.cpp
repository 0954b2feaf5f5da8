#include "hugectr_lite/preparation/inspect/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <sstream>
#include <string>

#include "data_reader/manifest.h"
#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/preparation/io/numpy_file.h"

namespace hlite::prep {
namespace {

// Layout of raw data, from its manifest or the config.
std::optional<data::RawFormat> raw_layout(const config::TrainConfig* config, Inspection& out) {
  if (const auto entry = data::find_manifest_of(out.file.path, data::DamagedManifest::kPassOver)) {
    out.sure = Sureness::kCertain;
    out.why = fmt::format("{} describes it ({} data)", entry->path, entry->file.role);
    if (entry->file.bytes > 0 && entry->file.bytes != out.file.bytes) {
      out.remarks.push_back(fmt::format("the manifest says {} bytes, the file has {}",
                                        entry->file.bytes, out.file.bytes));
    }
    if (const auto& tables = entry->manifest.slot_tables; !tables.empty())
      out.remarks.push_back(
          fmt::format("slots of one vocabulary can share a table: \"slot_tables\": [{}]",
                      fmt::join(tables, ",")));
    return data::RawFormat::from(entry->manifest);
  }
  if (config != nullptr && config->data.format->prepared == std::string_view("raw")) {
    out.why = "columns as the config says";
    return data::RawFormat::from(config->data);
  }
  out.remarks.emplace_back("if it is raw data, --config says what its records hold");
  return std::nullopt;
}

std::unique_ptr<RowStream> open_raw(const config::TrainConfig* config,
                                    const InspectOptions& options, Inspection& out) {
  const auto layout = raw_layout(config, out);
  if (!layout) {
    out.schema = fmt::format("{} bytes of binary data", out.file.bytes);
    return nullptr;
  }
  const data::RawFormat& format = *layout;
  const int64_t record = format.record_bytes(), records = out.file.bytes / record;
  out.schema = fmt::format("raw records of {}{}{}, {} samples", format.describe_record(),
                           format.float_label ? ", float label" : "",
                           format.float_dense ? ", float dense" : "", records);
  if (const int64_t rest = out.file.bytes % record; rest != 0) {
    out.remarks.push_back(fmt::format("{} bytes are left over after the last whole record", rest));
    return nullptr;
  }
  return raw_rows(out.file.path, format, options.rows, options.batch);
}

std::unique_ptr<RowStream> open_norm(const config::TrainConfig* config,
                                     const InspectOptions& options, Inspection& out) {
  const bool list = out.file.kind == FileKind::kNormList;
  const std::vector<std::string> files =
      list ? data::read_file_list(out.file.path) : std::vector<std::string>{out.file.path};
  if (files.empty()) raise<DataError>("{}: expected paths of files, found none", out.file.path);
  data::NormHeader first;
  int64_t records = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const data::NormHeader h = data::read_norm_header(ReadFile(files[i]));
    if (i == 0) first = h;
    records += h.records;
  }
  out.schema = fmt::format(
      "Norm data in {} file(s), {} samples: label_dim {}, dense_dim {}, slot_num {}, {} checksums",
      files.size(), records, first.label_dim, first.dense_dim, first.slots,
      first.sum ? "with" : "without");
  return norm_rows(out.file.path, files, first, config != nullptr && config->data.int64_keys,
                   options.rows);
}

std::unique_ptr<RowStream> open_parquet(const InspectOptions& options, Inspection& out) {
  try {
    ParquetFacts facts = parquet_rows(out.file, options.rows);
    out.schema = std::move(facts.summary);
    out.remarks = std::move(facts.remarks);
    return std::move(facts.rows);
  } catch (const DataError& error) {
    out.schema = "Parquet that cannot be read";
    out.remarks.push_back(error.what());
    return nullptr;
  }
}

std::string describe_columns(const FileFacts& file, const RowSchema& columns) {
  return fmt::format("{}: {}{} columns of numbers, {} of tokens", describe(file),
                     columns.label.empty() ? "" : "label \"" + columns.label + "\", ",
                     columns.numbers.size(), columns.slots.size());
}

// Text: a table, if most of its rows have the same columns.
std::unique_ptr<RowStream> open_text(const InspectOptions& options, Inspection& out) {
  out.schema = describe(out.file);
  try {
    const CsvSample sample(out.file.path);
    if (!sample.is_table()) return nullptr;
    TableGuess guess = guess_table(sample);
    out.file.table = sample.separator() == '\t' ? "TSV" : "CSV";
    out.why = guess.shape;
    add_remarks(guess, out.remarks);
    auto rows = table_rows(sample, std::move(guess), options.rows);
    out.schema = describe_columns(out.file, rows->schema());
    return rows;
  } catch (const DataError& error) {  // no row of it has columns
    out.remarks.emplace_back(error.what());
    return nullptr;
  }
}

std::string describe_array(const std::string& path) {
  const NumpyHeader header = read_numpy_header(ReadFile(path));
  return fmt::format("NumPy array of {} items, shape ({})", header.type,
                     fmt::join(header.shape, ", "));
}

void describe_manifest(Inspection& out) {
  if (!out.file.problem.empty()) {
    out.schema = "damaged manifest";
    out.remarks.push_back(out.file.problem);
    return;
  }
  const data::Manifest m = data::Manifest::read(out.file.path);
  out.schema = fmt::format("manifest of {} data", m.format);
  std::istringstream summary(m.summary());
  for (std::string line; std::getline(summary, line);)
    if (!line.empty()) out.remarks.push_back(line);
}

std::unique_ptr<RowStream> open_rows(const config::TrainConfig* config,
                                     const InspectOptions& options, Inspection& out) {
  switch (out.file.kind) {
    case FileKind::kCriteoTsv: {
      auto rows = criteo_rows(out.file.path, options.rows);
      out.schema = describe_columns(out.file, rows->schema());
      return rows;
    }
    case FileKind::kText:
      return open_text(options, out);
    case FileKind::kBinary:
      if (out.file.compression == Compression::kNone) return open_raw(config, options, out);
      out.schema = describe(out.file);
      return nullptr;
    case FileKind::kNorm:
    case FileKind::kNormList:
      if (!out.file.problem.empty()) {
        out.schema = "damaged Norm file";
        out.remarks.push_back(out.file.problem);
        return nullptr;
      }
      return open_norm(config, options, out);
    case FileKind::kNumpy:
      out.schema = describe_array(out.file.path);
      return nullptr;
    case FileKind::kParquet:
      return open_parquet(options, out);
    case FileKind::kManifest:
      describe_manifest(out);
      return nullptr;
    default:
      out.schema = describe(out.file);
      return nullptr;
  }
}

}  // namespace

Inspection inspect_file(const std::string& path, const config::TrainConfig* config,
                        const std::vector<int64_t>& slot_rows, const InspectOptions& options) {
  Inspection out;
  out.file = detect_file(path);
  out.sure = out.file.sure;
  out.why = out.file.why;
  const std::unique_ptr<RowStream> rows = open_rows(config, options, out);
  if (rows == nullptr) return out;
  out.columns = rows->schema();
  const bool tables = out.columns.local_keys && slot_rows.size() == out.columns.slots.size();
  try {
    out.statistics = collect(*rows, tables ? slot_rows : std::vector<int64_t>(), options.batch);
  } catch (const FileError&) {
    throw;
  } catch (const DataError& error) {
    out.remarks.push_back(fmt::format("cannot be read to the end: {}", error.what()));
    return out;
  }
  out.part = rows->part();
  out.rows_in_file = rows->rows_in_file();
  if (rows->bad_rows() > 0) {
    out.remarks.push_back(fmt::format("{} lines are not of the format; the first: {}",
                                      rows->bad_rows(), rows->first_bad_row()));
  }
  return out;
}

}  // namespace hlite::prep
