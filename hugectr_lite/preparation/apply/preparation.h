// The preparation that csv_prep or criteo_prep did to its training files, to be done to other
// lines: the same columns, ids, statistics and lists, read from the folder that the tool wrote.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data_reader/manifest.h"
#include "data_reader/raw_format.h"
#include "data_reader/unknown_values.h"
#include "hugectr_lite/preparation/apply/saved_ids.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/csv/csv_schema.h"
#include "hugectr_lite/preparation/csv/csv_statistics.h"
#include "hugectr_lite/preparation/engine/block_parser.h"
#include "hugectr_lite/preparation/engine/row_encoder.h"

namespace hlite::prep {

// Says if lines have the label's column.
enum class Labels { kThere, kAbsent };

// A line as the training file had them, without label and weight, and the names of its columns with
// the separator between them; empty: it had no header.
struct ExampleLine {
  std::string line, names;
};

class Preparation {
 public:
  // `folder`: with manifest.json and, unless ids are hashes, the vocabulary that it names. Throws
  // ConfigError, DataError or FileError. `carry`: names of columns that are copied next to the
  // scores; an empty list: those that the schema names.
  Preparation(const std::string& folder, Labels labels,
              const std::optional<std::vector<std::string>>& carry = {});

  [[nodiscard]] RowParser& parser() const { return *parser_; }
  // For lines that come without a file, and so without a header: columns are in the order of the
  // training file. Under Labels::kAbsent the columns of label and weight are both left out, or both
  // there. Throws DataError if the schema goes by a header that the manifest lacks.
  [[nodiscard]] std::unique_ptr<const LineParser> lines() const;
  // For the columns of a table: where each is among the fields of a row, which have no label. Throws
  // DataError as lines() does, and for a preparation by criteo_prep, whose columns have no names.
  [[nodiscard]] const CsvSchema& table_schema() const;
  // Names of the columns of the training file; empty: it had no header.
  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  // A line that lines() takes: each category is one of its vocabulary, each number the mean of the
  // training rows. Dates, parts of dates, buckets and crosses are missing. It is nobody's row.
  // REQUIRES Labels::kAbsent, and that lines() does not throw.
  [[nodiscard]] ExampleLine example() const;
  // The format of the records that encode() makes, and the rows of each table.
  [[nodiscard]] data::RawFormat format() const { return data::RawFormat::from(described_); }
  // The manifest as the tool wrote it, and its path.
  [[nodiscard]] const data::Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<int64_t>& slot_sizes() const { return described_.slot_sizes; }
  // The first slot whose categories all have ids of their own, so that one which the training rows
  // did not have gets an id outside of its table; -1: none.
  [[nodiscard]] int first_closed_slot() const;

  // Throws DataError, naming `place`, where its rows are not those that `config` describes, and
  // ConfigError where some categories have no id and key_policy refuses such.
  void check_fits(const config::DataConfig& config, const std::string& place) const;

  // Rows as records. A category that the training rows did not have gets id 0 where that stands
  // for such, else the number of the table's rows; `unknown` counts rows with one. Several threads
  // may call it at once.
  void encode(const ParsedRows& rows, EncodedRows& out, data::UnknownValues& unknown) const;

 private:
  void open_csv(const std::string& folder, Labels labels,
                const std::optional<std::vector<std::string>>& carry);
  // `columns`: of the training file; 0: not known. Returns null where its names are not known.
  const CsvRowParser* open_lines(CsvSchema schema, Labels labels, int64_t columns);
  void open_criteo(const std::string& folder, Labels labels);
  void open_ids(const std::string& folder, bool has_other);
  [[noreturn]] void fail_no_header() const;
  void put_dense(const ParsedRows& rows, int k, uint32_t* words) const;
  void fill_example(std::vector<std::string>& fields) const;

  struct FittedDense {
    DenseTransform transform = DenseTransform::kNone;
    DenseScale scale;
  };
  const std::string path_;
  const data::Manifest manifest_;
  std::unique_ptr<RowParser> parser_;
  std::unique_ptr<RowParser> line_parser_;  // csv_prep's, if it is known which column is which
  std::vector<std::string> header_;
  std::optional<CsvSchema> table_schema_;
  TrainingColumns training_;
  RowShape shape_;
  std::vector<FittedDense> dense_;                    // csv_prep's
  std::vector<std::shared_ptr<const SavedIds>> ids_;  // per slot; some are shared
  data::Manifest described_;
  std::unique_ptr<RowEncoder> encoder_;
};

}  // namespace hlite::prep
