// RowWindow reads listed rows of a matrix that is read in ranges, such as a tensor of a file, in
// ascending order and many at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace hlite::checkpoint {

class RowWindow {
 public:
  // read(first element, out)
  using Read = std::function<void(int64_t first, std::span<float> out)>;
  RowWindow(Read read, int64_t rows, int64_t width)
      : read_(std::move(read)), rows_(rows), width_(width) {}

  // The values of a row, until the next call. Cheap if rows are asked for in ascending order.
  const float* row(int64_t row) {
    if (row < begin_ || row >= begin_ + held_) {
      constexpr int64_t kFloats = int64_t{1} << 18;
      begin_ = row;
      held_ = std::min(rows_ - row, std::max<int64_t>(1, kFloats / std::max<int64_t>(1, width_)));
      values_.resize(static_cast<size_t>(held_ * width_));
      read_(begin_ * width_, values_);
    }
    return values_.data() + (row - begin_) * width_;
  }
  [[nodiscard]] int64_t width() const { return width_; }

 private:
  const Read read_;
  const int64_t rows_, width_;
  int64_t begin_ = 0, held_ = 0;
  std::vector<float> values_;
};

// Calls body(row, first column, columns, where in the range) for the rows that elements [first,
// first + count) of a matrix lie in.
template <typename Body>
void for_row_parts(int64_t width, int64_t first, int64_t count, Body&& body) {
  for (int64_t at = first; at < first + count;) {
    const int64_t row = at / width, column = at - row * width;
    const int64_t n = std::min(width - column, first + count - at);
    body(row, column, n, at - first);
    at += n;
  }
}

}  // namespace hlite::checkpoint
