#include "tools/csv_prep.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "hugectr_lite/core/error.h"
#include "tools/csv_record.h"
#include "tools/input_file.h"
#include "tools/quoted.h"

namespace hlite::tools {

namespace {

using nlohmann::ordered_json;
using Fields = std::vector<std::string_view>;

constexpr size_t kBlockBytes = size_t{1} << 20;

// A row's place in a file, made into text only for a message.
struct Place {
  const std::string& file;
  int64_t line;
  [[nodiscard]] std::string text() const { return fmt::format("{}:{}", file, line); }
};

struct DenseStatistics {
  int64_t count = 0;
  double mean = 0, squares = 0;  // Welford's running mean and sum of squared deviations
  void add(double x) {
    ++count;
    const double delta = x - mean;
    mean += delta / static_cast<double>(count);
    squares += delta * (x - mean);
  }
  // 1 for a constant column: it becomes 0 everywhere.
  [[nodiscard]] double deviation() const {
    const double variance = count > 0 ? squares / static_cast<double>(count) : 0.0;
    return variance > 0 ? std::sqrt(variance) : 1.0;
  }
};

class CsvConverter {
 public:
  explicit CsvConverter(CsvSchema schema)
      : schema_(std::move(schema)),
        splitter_(schema_.separator, schema_.trim),
        statistics_(schema_.dense.size()),
        ids_(schema_.categorical.size()),
        values_(schema_.categorical.size()) {}

  [[nodiscard]] int words() const {
    return static_cast<int>(1 + schema_.dense.size() + schema_.categorical.size());
  }
  [[nodiscard]] int dense_dim() const { return static_cast<int>(schema_.dense.size()); }

  // Learns categories and statistics from a training file.
  void fit(const std::string& path) {
    for_each_row(path, [&](const Place& place, const Fields& fields) {
      for (size_t k = 0; k < schema_.dense.size(); ++k) {
        double x = 0;
        if (number(place, fields, k, x)) statistics_[k].add(x);
      }
      for (size_t k = 0; k < schema_.categorical.size(); ++k) {
        const std::string_view value = field(fields, schema_.categorical[k]);
        if (missing(value)) continue;
        const auto id = static_cast<uint32_t>(values_[k].size() + 1);
        if (ids_[k].try_emplace(std::string(value), id).second) {
          values_[k].emplace_back(value);
        }
      }
    });
  }

  SourceFile convert(const std::string& path, const std::string& role, RawWriter& writer) {
    SourceFile source{.name = path, .role = role};
    std::vector<uint32_t> record(static_cast<size_t>(words()));
    source.bytes = for_each_row(path, [&](const Place& place, const Fields& fields) {
      const bool positive = label(place, fields);
      uint32_t* out = record.data();
      *out++ = std::bit_cast<uint32_t>(positive ? 1.0f : 0.0f);
      for (size_t k = 0; k < schema_.dense.size(); ++k) {
        *out++ = std::bit_cast<uint32_t>(dense(place, fields, k));
      }
      for (size_t k = 0; k < schema_.categorical.size(); ++k) {
        const auto found = ids_[k].find(std::string(field(fields, schema_.categorical[k])));
        *out++ = found == ids_[k].end() ? 0 : found->second;
      }
      writer.write(record.data(), 1, positive);
      ++source.rows;
    });
    if (source.rows == 0) raise<DataError>("{}: expected at least one row, found none", path);
    return source;
  }

  [[nodiscard]] std::vector<int64_t> slot_sizes() const {
    std::vector<int64_t> sizes;
    for (const auto& values : values_) sizes.push_back(static_cast<int64_t>(values.size()) + 1);
    return sizes;
  }

  [[nodiscard]] ordered_json features() const {
    ordered_json json;
    json["dense"] = ordered_json::array();
    for (size_t k = 0; k < schema_.dense.size(); ++k) {
      json["dense"].push_back({{"name", schema_.dense[k].column.name},
                               {"transform", transform_name(schema_.dense[k].transform)},
                               {"mean", statistics_[k].mean},
                               {"deviation", statistics_[k].deviation()}});
    }
    json["categorical"] = ordered_json::array();
    for (size_t k = 0; k < schema_.categorical.size(); ++k) {
      json["categorical"].push_back(
          {{"name", schema_.categorical[k].name}, {"values_from_id_1", values_[k]}});
    }
    return json;
  }

 private:
  // Calls body(place, fields) for every row; returns the bytes read.
  template <typename Body>
  int64_t for_each_row(const std::string& path, Body&& body) {
    InputFile file(path);
    LineBlock block;
    bool header = schema_.header;
    while (file.next(block, kBlockBytes)) {
      std::string_view text = block.text();
      for (int64_t line = block.first_line; !text.empty(); ++line) {
        const std::string_view row = text.substr(0, text.find('\n'));
        text.remove_prefix(row.size() + 1);
        const Place place{file.name(), line};
        if (trimmed(row).empty() || row == "\r") continue;
        if (const auto problem = splitter_.split(row)) {
          raise<DataError>("{}: {}", place.text(), *problem);
        }
        const Fields& fields = splitter_.fields();
        if (header) schema_.resolve(fields, place.text());
        check_columns(place, fields);
        if (!header) body(place, fields);
        header = false;
      }
    }
    return file.bytes_read();
  }

  // All lines have as many columns as the first one read, the header included.
  void check_columns(const Place& place, const Fields& fields) {
    const auto found = static_cast<int64_t>(fields.size());
    if (columns_ == 0) {
      if (found < schema_.columns_needed()) {
        raise<DataError>("{}: expected at least {} columns (as the schema says), found {}",
                         place.text(), schema_.columns_needed(), found);
      }
      columns_ = found;
    }
    if (found != columns_) {
      raise<DataError>("{}: expected {} columns as in the first line, found {}", place.text(),
                       columns_, found);
    }
  }

  [[nodiscard]] static std::string_view field(const Fields& fields, const CsvColumn& column) {
    return fields[static_cast<size_t>(column.index)];
  }
  [[nodiscard]] bool missing(std::string_view value) const {
    return value.empty() || value == schema_.missing;
  }

  [[nodiscard]] bool label(const Place& place, const Fields& fields) const {
    const std::string_view value = field(fields, schema_.label);
    const auto in = [&](const std::vector<std::string>& values) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    if (in(schema_.positive)) return true;
    if (in(schema_.negative)) return false;
    if (!schema_.negative.empty() || missing(value)) {
      raise<DataError>(
          "{}: column {} (label): expected {}, found {}", place.text(), schema_.label.index,
          schema_.negative.empty() ? "a value" : "a value the schema names", quoted(value));
    }
    return false;
  }

  // The number of dense feature k, after the logarithm if it has one. False when it is missing.
  [[nodiscard]] bool number(const Place& place, const Fields& fields, size_t k, double& x) const {
    const CsvSchema::Dense& dense = schema_.dense[k];
    const std::string_view value = field(fields, dense.column);
    if (missing(value)) return false;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, x);
    if (error != std::errc() || stop != end || !std::isfinite(x)) {
      raise<DataError>("{}: column {} ({}): expected a finite number, found {}", place.text(),
                       dense.column.index, dense.column.name, quoted(value));
    }
    if (dense.transform == DenseTransform::kLog1p ||
        dense.transform == DenseTransform::kLog1pStandardize) {
      if (!(x > -1)) {
        raise<DataError>("{}: column {} ({}): expected a number above -1 for {}, found {}",
                         place.text(), dense.column.index, dense.column.name,
                         transform_name(dense.transform), quoted(value));
      }
      x = std::log1p(x);
    }
    return true;
  }

  [[nodiscard]] float dense(const Place& place, const Fields& fields, size_t k) const {
    double x = 0;
    if (!number(place, fields, k, x)) return 0.0f;
    const DenseTransform transform = schema_.dense[k].transform;
    if (transform == DenseTransform::kStandardize ||
        transform == DenseTransform::kLog1pStandardize) {
      x = (x - statistics_[k].mean) / statistics_[k].deviation();
    }
    return static_cast<float>(x);
  }

  CsvSchema schema_;
  CsvSplitter splitter_;
  int64_t columns_ = 0;
  std::vector<DenseStatistics> statistics_;
  std::vector<std::unordered_map<std::string, uint32_t>> ids_;
  std::vector<std::vector<std::string>> values_;  // of the ids 1, 2, ...
};

}  // namespace

RawManifest csv_prep(const CsvPrepOptions& options) {
  if (options.train.empty()) raise<ConfigError>("--train: expected at least one file");
  if (std::find(options.train.begin(), options.train.end(), "-") != options.train.end()) {
    raise<ConfigError>("--train: expected files, found standard input, which cannot be read twice");
  }
  CsvConverter converter(CsvSchema::parse(config::JsonNode::parse_file(options.schema)));
  for (const std::string& path : options.train) converter.fit(path);

  make_folder(options.out);
  RawManifest manifest;
  manifest.tool = "csv_prep";
  manifest.float_label_dense = true;
  manifest.dense_dim = converter.dense_dim();
  manifest.slot_sizes = converter.slot_sizes();
  manifest.features = converter.features();
  std::vector<std::unique_ptr<RawWriter>> writers;
  const auto convert = [&](const char* role, const std::vector<std::string>& paths) {
    RawWriter& writer =
        *writers.emplace_back(std::make_unique<RawWriter>(options.out, role, converter.words()));
    for (const std::string& path : paths) {
      manifest.sources.push_back(converter.convert(path, role, writer));
    }
  };
  convert("train", options.train);
  if (!options.val.empty()) convert("val", options.val);
  publish(options.out, manifest, writers);
  return manifest;
}

}  // namespace hlite::tools
