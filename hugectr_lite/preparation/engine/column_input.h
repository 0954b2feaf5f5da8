// ColumnInput: the rows of a Parquet file as blocks, column after column.
//
// A block lies in one row group. Its columns are parsed in lanes: a lane has some of the columns
// and sees the blocks in their order, because a column can only be read from its row group's first
// row on. Lanes may be at different blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/preparation/engine/block_parser.h"
#include "hugectr_lite/preparation/engine/column_parser.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/io/parquet_rows.h"

namespace hlite::prep {

class ColumnInput {
 public:
  // `columns`: those of the layout, in its order. Rows longer than options.block_bytes as lines are
  // refused.
  ColumnInput(data::parquet::ParquetFile file, std::vector<FileColumn> columns, int lanes,
              const PrepOptions& options);

  // The next block; false at the end. One thread at a time.
  bool next(ColumnBlock& block);
  // Parses a lane's columns of a block, into `out` and block.columns. Throws DataError for a
  // damaged file.
  void parse(int lane, ColumnBlock& block, const ParsedRows& out);

  [[nodiscard]] const std::string& name() const { return file_.path(); }
  // Stored bytes of the row groups before the next block's.
  [[nodiscard]] int64_t stored_bytes_read() const { return stored_read_; }

 private:
  struct Column {
    FileColumn of_file;
    int group = -1;
    std::optional<ParquetRows> rows = {};
  };

  const data::parquet::ParquetFile file_;
  const size_t lanes_;
  const int64_t longest_row_, block_rows_, max_bad_rows_;
  std::vector<Column> columns_;
  size_t next_group_ = 0;
  int64_t next_row_ = 0;  // of that group
  int64_t stored_read_ = 0;
};

}  // namespace hlite::prep
