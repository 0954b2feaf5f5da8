// A layer's tables, keys and gradients for the tests of lookup and update.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "embedding/slot_layout.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/optimizer/update_rules.h"
#include "tests/support/compare.h"

namespace hlite::test {

struct LookupCase {
  embedding::SlotLayout layout;
  int64_t batch;
  std::vector<float> table, dout;
  std::vector<uint32_t> keys;

  LookupCase(std::vector<int64_t> rows, int64_t width, int64_t samples)
      : LookupCase(std::move(rows), width, samples, {}) {}
  // Several keys a slot, some of them missing, between columns of other layers. Empty hotness: one
  // key a slot, no other columns, and a table for each slot. `tables`: SlotLayout's.
  LookupCase(std::vector<int64_t> rows, int64_t width, int64_t samples,
             std::vector<int64_t> hotness, embedding::Combiner combiner = embedding::Combiner::kSum,
             std::vector<int64_t> tables = {})
      : layout(rows, width),
        batch(samples),
        dout(static_cast<size_t>(samples * layout.slots() * width)) {
    if (!hotness.empty()) {
      hotness.insert(hotness.begin(), 3);
      hotness.push_back(2);
      layout = embedding::SlotLayout(std::move(rows), width, KeyLayout(std::move(hotness)),
                                     combiner, 1, std::move(tables));
    }
    table.resize(static_cast<size_t>(layout.total_rows * width));
    fill_random(table, 11);
    draw(0);
  }

  // New keys, skewed so that all but the smallest tables have rows looked up never, once and often.
  // Gradients are multiples of 2^-10, so their sums in float are exact: what Adam makes of a sum
  // near 0 is not the rounding of its addends.
  void draw(uint64_t round) {
    fill_random(dout, 1000 + round);
    for (float& g : dout) g = std::round(g * 1024) / 1024;
    keys.clear();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t c = 0; c < layout.keys.columns; ++c) {
        const int64_t s = layout.keys.slot_of(c) - layout.first_slot;
        const double u = static_cast<double>(
            random::uniform(random::word(round, 7, static_cast<uint64_t>(keys.size()))));
        if (s < 0 || s >= layout.slots()) {
          keys.push_back(kNoKey - 1);  // out of every table
          continue;
        }
        const auto rows = static_cast<double>(layout.rows[static_cast<size_t>(s)]);
        const bool missing =
            !layout.complete && random::word(round, 8, static_cast<uint64_t>(keys.size())) % 3 == 0;
        keys.push_back(missing ? kNoKey : static_cast<uint32_t>(rows * u * u * u));
      }
  }

  [[nodiscard]] LookupCase with_table(float value) const {
    LookupCase other = *this;
    other.table.assign(table.size(), value);
    return other;
  }
  // Rows (of all tables) that sample b looks up in slot s.
  [[nodiscard]] std::vector<int64_t> rows_of(int64_t b, int64_t s) const {
    std::vector<int64_t> rows;
    for (int64_t k = 0; k < layout.hotness(s); ++k)
      if (const uint32_t key = keys_view()(b, layout.column(s) + k); key != kNoKey)
        rows.push_back(layout.offset[static_cast<size_t>(s)] + key);
    return rows;
  }
  // What a row counts in a sample that looks up n rows of the slot.
  [[nodiscard]] double weight(size_t n) const {
    return layout.combiner == embedding::Combiner::kMean ? 1.0 / static_cast<double>(n) : 1.0;
  }

  [[nodiscard]] Matrix<const uint32_t> keys_view() const {
    return {keys.data(), batch, layout.keys.columns};
  }
  [[nodiscard]] View<const float, 3> dout_view() const {
    return {dout.data(), batch, layout.slots(), layout.width};
  }
  // `values` as an array of the tables' rows; empty stays empty.
  [[nodiscard]] Matrix<float> like_table(std::vector<float>& values) const {
    if (values.empty()) return {};
    return {values.data(), layout.total_rows, std::ssize(values) / layout.total_rows};
  }
  // State `index` of a rule before the first step; empty where it keeps none.
  [[nodiscard]] std::vector<float> state(const optimizer::UpdateRule& rule, int index) const {
    const bool kept = optimizer::state_count(rule.type) > index;
    const int64_t n = layout.total_rows * optimizer::state_width(rule.type, index, layout.width);
    return std::vector<float>(static_cast<size_t>(kept ? n : 0), optimizer::initial_state(rule));
  }
};

// Odd, small and equal tables; one slot; one row.
inline std::vector<std::vector<int64_t>> table_sizes() {
  return {{1000, 3, 1, 257, 40}, {5000}, {1}, {1, 1}, {2, 3000, 2}};
}

}  // namespace hlite::test
