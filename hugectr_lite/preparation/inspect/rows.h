// Rows of any file as labels, numbers and keys, a chunk at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/norm_format.h"
#include "data_reader/raw_format.h"
#include "hugectr_lite/preparation/csv/csv_guess.h"
#include "hugectr_lite/preparation/inspect/file_kind.h"

namespace hlite::prep {

// A key that is not there: a missing token, or fewer keys in a slot than its maximum.
inline constexpr uint64_t kMissingKey = UINT64_MAX;

struct RowSchema {
  std::string label;                 // "": no label known
  std::vector<std::string> numbers;  // names of the columns
  std::vector<std::string> slots;
  std::vector<int> slot_of;  // [key columns]
  bool local_keys = true;    // keys count from 0 (tokens of text are arbitrary numbers)
  // True if the format distinguishes a missing number, or key, from a present one.
  bool numbers_may_miss = true, keys_may_miss = true;
};

struct RowChunk {
  int64_t first = 0;  // number of its first row in the file
  int64_t rows = 0;
  bool follows = false;         // directly after the chunk before
  std::vector<double> labels;   // [rows]; empty: none. Missing values are NaN
  std::vector<double> numbers;  // [rows, numbers]
  std::vector<uint64_t> keys;   // [rows, key columns]
  void resize(int64_t n, const RowSchema& schema);
};

class RowStream {
 public:
  virtual ~RowStream() = default;
  [[nodiscard]] const RowSchema& schema() const { return schema_; }
  // False at the end. Throws DataError, FileError.
  virtual bool next(RowChunk& chunk) = 0;
  // Rows of the file; -1 if they are known only after reading all of it.
  [[nodiscard]] virtual int64_t rows_in_file() const = 0;
  // Says which rows next() gives: "all", "blocks spread over the file", "the first 1000".
  [[nodiscard]] virtual std::string part() const = 0;
  // Rows passed over because they are not of the format, and the first of them with its reason.
  [[nodiscard]] int64_t bad_rows() const { return bad_rows_; }
  [[nodiscard]] const std::string& first_bad_row() const { return first_bad_row_; }

 protected:
  RowSchema schema_;
  int64_t bad_rows_ = 0;
  std::string first_bad_row_;
};

// Rows of records, as the trainer reads them. `wanted`: most rows to look at; of more raw data
// blocks of `batch` rows.
std::unique_ptr<RowStream> raw_rows(const std::string& path, const data::RawFormat& format,
                                    int64_t wanted, int64_t batch);
// `path` stands for the files, of which `first` is the first one's header.
std::unique_ptr<RowStream> norm_rows(const std::string& path, const std::vector<std::string>& files,
                                     const data::NormHeader& first, bool int64_keys,
                                     int64_t wanted);
// The first `wanted` rows of Criteo's text, and of a table as `guess` takes it: its categories are
// tokens, and it has no columns that are left out.
std::unique_ptr<RowStream> criteo_rows(const std::string& path, int64_t wanted);
std::unique_ptr<RowStream> table_rows(const CsvSample& sample, TableGuess guess, int64_t wanted);
// What csv_prep would take the table for.
void add_remarks(const TableGuess& guess, std::vector<std::string>& remarks);
// The first Parquet file of a set as a table. Describes the set: its files, columns and row groups.
struct ParquetFacts {
  std::string summary;               // "3 Parquet files, 12 row groups of 1 to 100 rows, 1201 rows"
  std::vector<std::string> remarks;  // the columns and their types, what else is to be said
  std::unique_ptr<RowStream> rows;   // null: there are none
};
ParquetFacts parquet_rows(const FileFacts& file, int64_t wanted);
}  // namespace hlite::prep
