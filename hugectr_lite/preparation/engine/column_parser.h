// Columns of a Parquet file to columns of rows, without text between: what a format may bring to
// the preparation engine in place of lines (row_parser.h). The rows, and what is wrong with them,
// are those of the same values as fields of lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/parquet/parquet_plugin.h"

namespace hlite::prep {

// A field that makes its row a bad one or, if `fatal`, the file.
struct BadField {
  int64_t row = 0;  // of the block
  bool fatal = false;
  std::string reason;  // fatal: what was expected, and what was found
};

// What became of a column of a block of rows.
struct ParsedColumn {
  void set_missing(int64_t row) {
    if (missing.empty()) missing.resize(static_cast<size_t>(rows));
    missing[static_cast<size_t>(row)] = 1;
  }
  // Beyond max_bad the block is refused in any case: more are not kept.
  void add_bad(BadField field) {
    if (std::ssize(bad) <= max_bad) bad.push_back(std::move(field));
  }
  int64_t rows = 0;  // of the block
  int64_t max_bad = 0;
  int64_t longest_row = INT64_MAX;    // bytes of a line
  int64_t field_bytes = 0;            // that the fields would have in lines
  std::vector<uint8_t> missing = {};  // [rows] 1: no category; empty: there are all
  std::vector<BadField> bad = {};     // in the order of the rows
};

// Rows that are parsed together. They lie in one row group.
struct ColumnBlock {
  int group = 0;
  int64_t first_row = 0, rows = 0;    // of the file
  std::vector<ParsedColumn> columns;  // of the layout
};

// Parses one column, by one thread at a time.
class ColumnParser {
 public:
  virtual ~ColumnParser() = default;
  // A row group begins: dictionaries of the one before are gone.
  virtual void begin_group() {}
  // Parses a piece of the column into elements of `out` from `row` of the block on. May write
  // ColumnArrays::kRowsBeyond elements beyond it.
  virtual void parse(const data::parquet::Piece& piece, int64_t row, std::byte* out,
                     ParsedColumn& found) = 0;
};

// Which column of the file, and what parses it.
struct FileColumn {
  int index = 0;
  std::unique_ptr<ColumnParser> parser;
};

}  // namespace hlite::prep
