// A block of lines to rows, column after column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/preparation/engine/column_parser.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/engine/row_parser.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

struct BadRow {
  int64_t line;
  std::string reason;
};

// The memory is kept from block to block.
struct ParsedRows {
  HostMemory arrays;
  size_t stride = 0;  // bytes from one column's array to the next
  int64_t rows = 0;
  std::vector<int64_t> missing;  // a slot
  std::vector<BadRow> bad;
  // Those of a column of 32 bits, in a layout of one key a slot.
  [[nodiscard]] uint32_t* values(int c) const {
    return reinterpret_cast<uint32_t*>(arrays.data() + static_cast<size_t>(c) * stride);
  }
  // The values of a column, layout.bytes(c) in each row.
  [[nodiscard]] std::span<const std::byte> column(const RowLayout& layout, int c) const {
    return {arrays.data() + static_cast<size_t>(layout.first_array(c)) * stride,
            static_cast<size_t>(rows * layout.bytes(c))};
  }
};

// Not changed by parsing: any number of threads.
class BlockParser {
 public:
  BlockParser(const RowLayout& layout, const PrepOptions& options);
  // Parses the lines of input number `file` that belong to the sample. Stops at more than
  // max_bad_rows bad ones: all threads stop after that.
  void parse(const LineBlock& lines, size_t file, const LineParser& parser, ParsedRows& out) const;
  // For rows that are parsed by columns: before, and after all columns are there. finish() leaves
  // the good rows that belong to the sample.
  void begin(const ColumnBlock& block, ParsedRows& out) const;
  void finish(const ColumnBlock& block, size_t file, ParsedRows& out) const;

 private:
  [[nodiscard]] bool keeps(size_t file, int64_t line) const;
  [[nodiscard]] bool keeps_negative(size_t file, int64_t line) const;
  void reserve(int64_t rows, ParsedRows& out) const;
  void keep_good_rows(const ColumnBlock& block, size_t file, ParsedRows& out) const;

  RowLayout layout_;
  int64_t max_bad_rows_;
  bool all_;               // there is no sampling
  uint64_t seed_, below_;  // a line is kept when its draw is below this
  uint64_t negatives_below_;
  size_t train_files_;  // the first files, which lose negatives; 0 if all are kept
};

}  // namespace hlite::prep
