// Blocks of columns for the tests of concat_columns on every device: gaps, overlaps, several blocks
// of one matrix, none at all.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "hugectr_lite/ops/concat.h"
#include "tests/support/compare.h"

namespace hlite::test {

struct ColumnCase {
  struct Block {
    int64_t from_width, from_begin, to_begin, columns;
  };
  int64_t rows, width;
  std::vector<Block> blocks;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} x {} of {} blocks", rows, width, blocks.size());
  }
};

inline std::vector<ColumnCase> column_cases() {
  std::vector<ColumnCase> cases = {
      {0, 3, {{3, 0, 0, 3}}},
      {1, 1, {{1, 0, 0, 1}}},
      {5, 3, {{3, 1, 1, 0}}},
      {4, 7, {}},
      {7, 9, {{5, 2, 4, 3}}},                                   // gaps on both sides
      {33, 40, {{16, 0, 24, 16}, {24, 0, 0, 24}}},              // whole, not in order
      {13, 24, {{24, 0, 0, 16}, {8, 0, 8, 8}, {16, 8, 4, 8}}},  // three deep, and a gap
      {1031, 3, {{3, 1, 0, 2}, {2, 0, 1, 2}}},
      {3, 2000, {{1031, 7, 501, 1024}, {13, 0, 0, 13}}},
      {61, 141, {{13, 0, 0, 13}, {128, 0, 13, 128}}},  // dense features before a vector
  };
  // Every third slot of 100: more blocks than a launch takes at once.
  ColumnCase many{5, 70 * 4, {}};
  for (int64_t i = 0; i < 70; ++i) many.blocks.push_back({400, i * 4 + 8, (69 - i) * 4, 4});
  cases.push_back(many);
  many.blocks.push_back({8, 0, 100, 8});  // and one on top of two of them
  cases.push_back(many);
  return cases;
}

// Random inputs of a case, and the sums from the definition.
class ColumnInputs {
 public:
  explicit ColumnInputs(const ColumnCase& c) : case_(c) {
    for (size_t b = 0; b < c.blocks.size(); ++b) {
      values_.emplace_back(static_cast<size_t>(c.rows * c.blocks[b].from_width));
      fill_random(values_.back(), b + 1);
    }
  }
  [[nodiscard]] const std::vector<std::vector<float>>& values() const { return values_; }
  // Rounds every input by `round`.
  template <typename Round>
  void change(Round round) {
    for (auto& v : values_)
      for (float& x : v) x = round(x);
  }
  [[nodiscard]] std::vector<ops::ColumnBlock<float>> blocks() const {
    std::vector<ops::ColumnBlock<float>> list;
    for (size_t b = 0; b < values_.size(); ++b) {
      const ColumnCase::Block& at = case_.blocks[b];
      list.push_back(
          {{values_[b].data(), case_.rows, at.from_width}, at.from_begin, at.to_begin, at.columns});
    }
    return list;
  }
  // In float, added in the order of the blocks.
  [[nodiscard]] std::vector<float> sums() const {
    std::vector<float> out(static_cast<size_t>(case_.rows * case_.width));
    for (size_t b = 0; b < values_.size(); ++b) {
      const ColumnCase::Block& at = case_.blocks[b];
      for (int64_t i = 0; i < case_.rows; ++i)
        for (int64_t j = 0; j < at.columns; ++j)
          out[static_cast<size_t>(i * case_.width + at.to_begin + j)] +=
              values_[b][static_cast<size_t>(i * at.from_width + at.from_begin + j)];
    }
    return out;
  }

 private:
  const ColumnCase& case_;
  std::vector<std::vector<float>> values_;
};

}  // namespace hlite::test
