// SlotLayout: the slots of one embedding layer and the tables that they look up. A slot has some
// columns of a batch's keys, which name rows of its table; these become one vector a sample.
// Usually every slot has a table of its own; several slots can share one (`slot_tables`).
//
// All tables of a layer have one width and lie one after another in a single array
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
  kMean,    // of the keys that a sample has in the slot
  kConcat,  // of a history: none; a layout has each of its positions as slots of one key
};

struct SlotLayout {
  std::vector<int64_t> rows;      // [S] rows of each slot's table, >= 1
  std::vector<int64_t> offset;    // [S] rows of the tables before it
  std::vector<int64_t> table_of;  // [S] the number of its table
  // By table: its rows, the rows of the tables before it, and its slots, ascending.
  std::vector<int64_t> table_rows, table_offset;
  std::vector<std::vector<int64_t>> table_slots;
  int64_t total_rows = 0;
  int64_t width = 0;  // floats a row

  KeyLayout keys;          // of the whole batch, or of those that the layer selects of it
  int64_t first_slot = 0;  // the layer's slot 0 among them
  Combiner combiner = Combiner::kSum;
  bool complete = false;  // no column is ever without a key: the data's format says so

  SlotLayout() = default;
  // A table and one key for each slot, always, and no other columns. Throws ConfigError when a
  // table has no row or more than 32-bit keys can reach, or width < 1.
  SlotLayout(std::vector<int64_t> slot_rows, int64_t row_width);
  // The slots of `batch_keys` from `first` on, as many as slot_rows has. `tables` [S]: the table
  // that each slot looks up, of the same rows for all slots of a table; empty: one for each slot.
  // Throws likewise, and if the numbers of tables do not begin with 0 and count up in the order in
  // which they first appear.
  SlotLayout(std::vector<int64_t> slot_rows, int64_t row_width, KeyLayout batch_keys,
             Combiner how = Combiner::kSum, int64_t first = 0, std::vector<int64_t> tables = {});

  [[nodiscard]] int64_t slots() const { return static_cast<int64_t>(rows.size()); }
  [[nodiscard]] int64_t tables() const { return static_cast<int64_t>(table_rows.size()); }
  // The same slots over one shared array of rows: every table is the whole array, and keys are
  // rows.
  [[nodiscard]] SlotLayout pooled(int64_t pool_rows) const;
  // Returns true if tables share no row, and the rows of each follow those of the one before.
  [[nodiscard]] bool rows_ascend() const {
    for (size_t t = 1; t < table_rows.size(); ++t)
      if (table_offset[t] < table_offset[t - 1] + table_rows[t - 1]) return false;
    return true;
  }
  // The rows of table t in an array of this layout (weights or optimizer state).
  template <typename T>
  [[nodiscard]] Matrix<T> table(Matrix<T> all, int64_t t) const {
    const auto i = static_cast<size_t>(t);
    return all.rows(table_offset[i], table_offset[i] + table_rows[i]);
  }

  // Returns how many columns slot s of the layer has, and the first of them.
  [[nodiscard]] int64_t hotness(int64_t s) const {
    return keys.hotness[static_cast<size_t>(first_slot + s)];
  }
  [[nodiscard]] int64_t column(int64_t s) const {
    return keys.first_column[static_cast<size_t>(first_slot + s)];
  }
  // Columns of the layer; they follow each other in `keys`.
  [[nodiscard]] int64_t columns() const {
    return slots() == 0 ? 0 : column(slots() - 1) + hotness(slots() - 1) - column(0);
  }
  [[nodiscard]] bool is_one_hot() const { return columns() == slots(); }
  // Lookups of a sample in table t: the columns of all its slots.
  [[nodiscard]] int64_t table_lookups(int64_t t) const {
    int64_t lookups = 0;
    for (const int64_t s : table_slots[static_cast<size_t>(t)]) lookups += hotness(s);
    return lookups;
  }
  [[nodiscard]] int64_t max_table_lookups() const {
    int64_t most = 0;
    for (int64_t t = 0; t < tables(); ++t) most = std::max(most, table_lookups(t));
    return most;
  }
  // Returns true if gradients of the slot's rows are scaled.
  [[nodiscard]] bool scales(int64_t s) const {
    return combiner == Combiner::kMean && hotness(s) > 1;
  }
};

}  // namespace hlite::embedding
