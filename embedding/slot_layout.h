// SlotLayout: the slots of one embedding layer. Each has a table and some columns of a batch's
// keys, which name rows of it; these become one vector a sample.
//
// All tables of a layer share one width and lie one after another in a single array
// [total_rows, width]: key k of slot s is row offset[s] + k. One array means one allocation (huge
// pages), one pointer in every kernel, and optimizer states of the same shape.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/key_layout.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

enum class Combiner {
  kSum,
  kMean,  // of the keys that a sample has in the slot
};

struct SlotLayout {
  std::vector<int64_t> rows;    // [S] rows of each slot's table, >= 1
  std::vector<int64_t> offset;  // [S] exclusive prefix sums of rows
  int64_t total_rows = 0;
  int64_t width = 0;  // floats a row

  KeyLayout keys;          // of the whole batch
  int64_t first_slot = 0;  // the layer's slot 0 among them
  Combiner combiner = Combiner::kSum;
  bool complete = false;  // no column is ever without a key: the data's format says so

  SlotLayout() = default;
  // One key a slot, always, and no other columns. Throws ConfigError when a table has no row or
  // more than 32-bit keys can reach, or width < 1.
  SlotLayout(std::vector<int64_t> table_rows, int64_t row_width);
  // The slots of `batch_keys` from `first` on, as many as there are tables. Throws likewise.
  SlotLayout(std::vector<int64_t> table_rows, int64_t row_width, KeyLayout batch_keys,
             Combiner how = Combiner::kSum, int64_t first = 0);

  [[nodiscard]] int64_t slots() const { return static_cast<int64_t>(rows.size()); }
  // The same slots over one pool of rows: every table is all of it, and keys are rows.
  [[nodiscard]] SlotLayout pooled(int64_t pool_rows) const;
  // The rows of slot s in an array of this layout (weights or optimizer state).
  template <typename T>
  [[nodiscard]] Matrix<T> table(Matrix<T> all, int64_t s) const {
    const auto i = static_cast<size_t>(s);
    return all.rows(offset[i], offset[i] + rows[i]);
  }

  // Of the layer's slot s: how many columns it has, and the first of them.
  [[nodiscard]] int64_t hotness(int64_t s) const {
    return keys.hotness[static_cast<size_t>(first_slot + s)];
  }
  [[nodiscard]] int64_t column(int64_t s) const {
    return keys.first_column[static_cast<size_t>(first_slot + s)];
  }
  // Of the layer; they follow each other.
  [[nodiscard]] int64_t columns() const {
    return slots() == 0 ? 0 : column(slots() - 1) + hotness(slots() - 1) - column(0);
  }
  [[nodiscard]] bool is_one_hot() const { return columns() == slots(); }
  [[nodiscard]] int64_t most_hotness() const {
    int64_t most = 0;
    for (int64_t s = 0; s < slots(); ++s) most = std::max(most, hotness(s));
    return most;
  }
  // Whether gradients of the slot's rows are scaled.
  [[nodiscard]] bool scales(int64_t s) const {
    return combiner == Combiner::kMean && hotness(s) > 1;
  }
};

}  // namespace hlite::embedding
