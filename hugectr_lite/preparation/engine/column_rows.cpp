#include "hugectr_lite/preparation/engine/column_rows.h"

#include <algorithm>
#include <span>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

namespace {
// Rows put together at a time: they and a column of them stay in the cache.
constexpr int64_t kTileRows = 1024;
}  // namespace

ColumnRows::ColumnRows(RowShape shape, const std::vector<std::string>& paths, int64_t first,
                       int64_t rows, DenseFinish finish)
    : shape_(shape), first_(first), rows_(rows), finish_(std::move(finish)) {
  words_.assign(static_cast<size_t>(1 + shape.dense), 1);
  for (int slot = 0; slot < shape.slots; ++slot) words_.push_back(shape.hotness_of(slot));
  HLITE_CHECK(paths.size() == words_.size(), "{} columns", paths.size());
  for (const std::string& path : paths) columns_.emplace_back(path);
  for (int c = 0; c < std::ssize(words_); ++c) {
    const ReadFile& column = columns_[static_cast<size_t>(c)];
    const int64_t needed = (first + rows) * bytes(c);
    if (column.size() < needed) {
      raise<DataError>("{}: expected at least {} bytes, found {}", column.name(), needed,
                       column.size());
    }
  }
}

int64_t ColumnRows::bytes(int column) const {
  return finish_ && column >= 1 && column <= shape_.dense ? 8
                                                          : 4 * words_[static_cast<size_t>(column)];
}

void ColumnRows::read(int64_t first, int64_t count, uint32_t* out) const {
  HLITE_CHECK(first >= 0 && count >= 0 && first + count <= rows_, "rows {} + {} of {}", first,
              count, rows_);
  thread_local std::vector<std::byte> tile;
  const int64_t words = shape_.words();
  for (int64_t at = 0; at < count; at += kTileRows, out += kTileRows * words) {
    const int64_t rows = std::min(kTileRows, count - at);
    uint32_t* to = out;
    for (int c = 0; c < std::ssize(words_); to += words_[static_cast<size_t>(c++)]) {
      const int64_t width = bytes(c);
      if (std::ssize(tile) < kTileRows * width) tile.resize(static_cast<size_t>(kTileRows * width));
      const auto raw = std::span(tile).first(static_cast<size_t>(rows * width));
      columns_[static_cast<size_t>(c)].read((first_ + first + at) * width, raw);
      if (finish_ && c >= 1 && c <= shape_.dense) {
        finish_(c - 1, reinterpret_cast<const double*>(tile.data()), rows, to, words);
        continue;
      }
      const int64_t n = words_[static_cast<size_t>(c)];
      const auto* values = reinterpret_cast<const uint32_t*>(tile.data());
      for (int64_t row = 0; row < rows; ++row, values += n)
        std::copy_n(values, n, to + row * words);
    }
  }
}

}  // namespace hlite::prep
