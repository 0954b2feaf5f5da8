#include "hugectr_lite/preparation/engine/column_input.h"

#include <algorithm>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

namespace {
constexpr int64_t kUsualFieldBytes = 6;  // typical size of a field with its separator
}  // namespace

ColumnInput::ColumnInput(data::parquet::ParquetFile file, std::vector<FileColumn> columns,
                         int lanes, const PrepOptions& options)
    : file_(std::move(file)),
      lanes_(static_cast<size_t>(lanes)),
      longest_row_(options.block_bytes),
      block_rows_(
          std::max<int64_t>(options.block_bytes / (kUsualFieldBytes * std::ssize(columns)), 1)),
      // Unlimited if sampling: sampled rows are unknown.
      max_bad_rows_(options.sample >= 1 ? options.max_bad_rows : INT64_MAX) {
  for (FileColumn& column : columns) columns_.push_back({.of_file = std::move(column)});
}

bool ColumnInput::next(ColumnBlock& block) {
  const auto& groups = file_.groups();
  while (next_group_ < groups.size() && next_row_ == groups[next_group_].rows) {
    stored_read_ += groups[next_group_++].stored_bytes;
    next_row_ = 0;
  }
  if (next_group_ == groups.size()) return false;
  const data::parquet::RowGroup& group = groups[next_group_];
  block.group = static_cast<int>(next_group_);
  block.first_row = group.first_row + next_row_;
  block.rows = std::min(block_rows_, group.rows - next_row_);
  block.columns.assign(columns_.size(),
                       {.rows = block.rows, .max_bad = max_bad_rows_, .longest_row = longest_row_});
  next_row_ += block.rows;
  return true;
}

void ColumnInput::parse(int lane, ColumnBlock& block, const ParsedRows& out) {
  const int64_t first =
      block.first_row - file_.groups()[static_cast<size_t>(block.group)].first_row;
  for (auto c = static_cast<size_t>(lane); c < columns_.size(); c += lanes_) {
    Column& column = columns_[c];
    ParsedColumn& found = block.columns[c];
    ColumnParser& parser = *column.of_file.parser;
    if (column.group != block.group) {
      column.rows.emplace(file_, block.group, column.of_file.index);
      column.rows->skip(first);
      column.group = block.group;
      parser.begin_group();
    }
    std::byte* const to = out.arrays.data() + c * out.stride;
    for (int64_t row = 0; row < block.rows;) {
      const data::parquet::Piece piece = column.rows->next(block.rows - row);
      parser.parse(piece, row, to, found);
      row += piece.levels;
    }
    for (const BadField& bad : found.bad)
      if (bad.fatal) column.rows->fail(first + bad.row, bad.reason);
  }
}

}  // namespace hlite::prep
