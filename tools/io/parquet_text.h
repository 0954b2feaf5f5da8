// Rows of a Parquet file as lines of text: a field a column, nothing for a missing value.
//
// Numbers have the fewest digits that tell them from all others of their type, booleans are 1 and
// 0. Several row groups are written at once, each by a thread of its own; lines come in the order
// of the rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "tools/io/input_stream.h"
#include "tools/io/text_form.h"

namespace hlite::tools {

// The values of one column of a row group as fields, one after the other.
class ParquetFields {
 public:
  ParquetFields(const data::parquet::ParquetFile& file, int group, int column, const TextForm& form,
                bool hexadecimal);
  // Appends the next row's field. Throws DataError "<file>: row group 2, column "C3", row 7: ...".
  void append(std::string& out);

 private:
  using Append = void (ParquetFields::*)(std::string& out);
  [[nodiscard]] static Append function_for(const data::parquet::ParquetColumn& column,
                                           bool hexadecimal);
  void refill();
  template <typename T>
  void append_number(std::string& out);
  template <typename T>
  void append_hexadecimal(std::string& out);
  void append_text(std::string& out);
  [[noreturn]] void fail(const std::string& expected) const;

  data::parquet::ColumnCursor cursor_;
  const int16_t most_defined_;
  const int64_t first_row_;  // of the group
  const char separator_;
  const bool quotes_;
  Append append_;
  data::parquet::Piece piece_{};
  int64_t level_ = 0, value_ = 0;  // of the piece
  int64_t row_ = 0;                // of the group
};

// The file's lines. `threads`: at most so many row groups at once. Throws DataError for a column of
// a type that has no text, unless the form leaves it out.
std::unique_ptr<InputStream> open_parquet_text(std::unique_ptr<StoredBytes> stored,
                                               const TextForm& form, int threads);

}  // namespace hlite::tools
