// The place where the first stage of a preparation (parse_stage.h) puts the rows that it has
// parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hugectr_lite/preparation/engine/block_parser.h"
#include "hugectr_lite/preparation/engine/placed_file.h"
#include "hugectr_lite/preparation/engine/prep_options.h"

namespace hlite::prep {

// The rows of a block, and their place among those of all inputs.
struct PlacedRows {
  ParsedRows parsed;
  int64_t first = 0;
  int64_t train = 0;      // training rows up to the end of this block
  bool is_train = false;  // all of them, or none
  // Between the calls of a sink:
  std::vector<std::byte> encoded;
  std::vector<int64_t> zeros;  // a slot
};

// Each block goes through take(), of every lane, then write(), then append().
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  // A lane sees the blocks one after the other, in order. Several lanes may work at once, on one
  // block, too.
  [[nodiscard]] virtual int lanes() const { return 0; }
  virtual void take(int /*lane*/, PlacedRows& /*rows*/) {}
  // Any blocks at once.
  virtual void write(PlacedRows& rows) = 0;
  // One block after the other, in order, by a thread that may wait for the disk.
  [[nodiscard]] virtual bool appends() const { return false; }
  virtual void append(PlacedRows& /*rows*/) {}
};

// Writes a file a column.
class ColumnSink final : public BlockSink {
 public:
  // `options` must outlive this.
  ColumnSink(RowLayout layout, const std::vector<PlacedFile>& columns, const PrepOptions& options)
      : layout_(std::move(layout)), columns_(columns), options_(options) {}
  void write(PlacedRows& rows) override {
    for (int c = 0; c < layout_.columns() && rows.parsed.rows > 0; ++c) {
      if (options_.at_point) options_.at_point("column");
      columns_[static_cast<size_t>(c)].write(rows.first * layout_.bytes(c),
                                             rows.parsed.column(layout_, c));
    }
  }

 private:
  const RowLayout layout_;
  const std::vector<PlacedFile>& columns_;
  const PrepOptions& options_;
};

}  // namespace hlite::prep
