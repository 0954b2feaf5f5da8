// Rows that exist nowhere: every word is a function of its row and column.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/engine/row_source.h"

namespace hlite::test {

class GeneratedRows final : public prep::RowSource {
 public:
  GeneratedRows(prep::RowShape shape, int64_t rows, std::vector<int64_t> slot_sizes)
      : shape_(shape), rows_(rows), slot_sizes_(std::move(slot_sizes)) {}

  [[nodiscard]] const prep::RowShape& shape() const override { return shape_; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  [[nodiscard]] const std::vector<int64_t>& slot_sizes() const { return slot_sizes_; }

  [[nodiscard]] uint32_t label(int64_t row) const { return draw(row, 0) % 3 == 0; }
  // As an integer; of float data, a quarter of it below zero.
  [[nodiscard]] int32_t integer(int64_t row, int k) const {
    return static_cast<int32_t>(draw(row, 1 + k) >> (draw(row, 900 + k) % 31 + 1));
  }
  [[nodiscard]] float real(int64_t row, int k) const {
    return static_cast<float>(integer(row, k)) * 0.25f - 3.0f;
  }
  [[nodiscard]] uint32_t id(int64_t row, int slot) const {
    return static_cast<uint32_t>(draw(row, 500 + slot) %
                                 static_cast<uint64_t>(slot_sizes_[static_cast<size_t>(slot)]));
  }
  [[nodiscard]] std::vector<uint32_t> words(int64_t row) const {
    std::vector<uint32_t> words{label(row)};
    for (int k = 0; k < shape_.dense; ++k)
      words.push_back(shape_.dense_is_float ? std::bit_cast<uint32_t>(real(row, k))
                                            : static_cast<uint32_t>(integer(row, k)));
    for (int s = 0; s < shape_.slots; ++s) words.push_back(id(row, s));
    return words;
  }

  void read(int64_t first, int64_t count, uint32_t* out) const override {
    HLITE_CHECK(first >= 0 && count >= 0 && first + count <= rows_, "[{}, {}) of {}", first,
                first + count, rows_);
    for (int64_t row = first; row < first + count; ++row)
      for (const uint32_t word : words(row)) *out++ = word;
  }

 private:
  static uint32_t draw(int64_t row, int column) {
    return random::word(7, static_cast<uint64_t>(column), static_cast<uint64_t>(row));
  }
  prep::RowShape shape_;
  int64_t rows_;
  std::vector<int64_t> slot_sizes_;
};

}  // namespace hlite::test
