// The values of a column of a Parquet file, a piece of its rows after the other.
#pragma once

#include <cstdint>
#include <string>

#include "data_reader/parquet/parquet_file.h"

namespace hlite::prep {

// Reads one row group, on one thread.
class ParquetRows {
 public:
  ParquetRows(const data::parquet::ParquetFile& file, int group, int column)
      : cursor_(file.open_column(group, column)),
        max_defined_(file.columns()[static_cast<size_t>(column)].max_defined),
        first_row_(file.groups()[static_cast<size_t>(group)].first_row) {}
  // The next rows, between 1 and `most`. Valid until the next call. Throws as fail() does, for a
  // column that ends here, too; DataError for a damaged one.
  data::parquet::Piece next(int64_t most);
  // Passes over so many rows.
  void skip(int64_t rows);
  // Throws DataError "<file>: row group 2, column "C3", row 7: expected ...". `row`: of the row
  // group; the message has that of the file.
  [[noreturn]] void fail(int64_t row, const std::string& expected) const;

 private:
  data::parquet::ColumnCursor cursor_;
  const int16_t max_defined_;
  const int64_t first_row_;
  int64_t rows_ = 0;  // handed out
};

}  // namespace hlite::prep
