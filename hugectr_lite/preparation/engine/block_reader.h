// The inputs of a preparation, one after the other, as blocks that any thread can parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hugectr_lite/preparation/engine/column_input.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/engine/row_parser.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

// Lines, or rows of a file that is read by columns.
struct InputBlock {
  LineBlock lines;  // none in the block that ends a file
  std::shared_ptr<const LineParser> parser;
  std::shared_ptr<ColumnInput> by_columns;  // null: lines
  ColumnBlock columns;
  size_t file = 0;
  std::optional<std::string> first_line;  // in the block that begins a file
  bool ends_file = false;
  int64_t file_bytes = 0;  // with ends_file, of lines
  int64_t input_done = 0;  // stored bytes of all inputs up to here
};

class BlockReader {
 public:
  // Begins with the input after those of which `first_lines` are. `lanes`: of files that are read
  // by columns.
  BlockReader(const PrepOptions& options, RowParser& parser, int lanes,
              const std::vector<std::string>& first_lines);
  // False when there is nothing left to read. Throws as InputFile and RowParser do.
  bool next(InputBlock& block);

 private:
  void open();
  bool next_lines(InputBlock& block);
  bool next_columns(InputBlock& block);

  const PrepOptions& options_;
  RowParser& parser_;
  const int lanes_;
  std::unique_ptr<InputFile> lines_;
  std::shared_ptr<ColumnInput> columns_;
  std::shared_ptr<const LineParser> line_parser_;
  size_t next_input_;
  int64_t earlier_inputs_ = 0;  // their stored bytes
  int64_t stored_bytes_ = 0;    // of this one
};

}  // namespace hlite::prep
