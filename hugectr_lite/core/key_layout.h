// KeyLayout: which columns of a batch's key matrix [batch, columns] belong to which slot.
//
// A slot with hotness h owns h adjacent columns; slots lie one after another. A sample has up to h
// keys in the slot; columns that it leaves over hold kNoKey (raw data always fills them all).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"

namespace hlite {

struct KeyLayout {
  std::vector<int64_t> hotness;       // [slots] columns of each slot, >= 1
  std::vector<int64_t> first_column;  // [slots] exclusive prefix sums of hotness
  int64_t columns = 0;

  KeyLayout() = default;
  explicit KeyLayout(std::vector<int64_t> slot_hotness) : hotness(std::move(slot_hotness)) {
    first_column.reserve(hotness.size());
    for (const int64_t h : hotness) {
      HLITE_CHECK(h >= 1, "a slot of {} columns", h);
      first_column.push_back(columns);
      columns += h;
    }
  }
  static KeyLayout one_hot(int64_t slots) {
    return KeyLayout(std::vector<int64_t>(static_cast<size_t>(slots), 1));
  }

  [[nodiscard]] int64_t slots() const { return static_cast<int64_t>(hotness.size()); }
  [[nodiscard]] bool is_one_hot() const { return columns == slots(); }
  [[nodiscard]] int64_t slot_of(int64_t column) const {
    return std::upper_bound(first_column.begin(), first_column.end(), column) -
           first_column.begin() - 1;
  }
  // "key of slot 3", or "key 7 of slot 3" where a slot has several.
  [[nodiscard]] std::string describe(int64_t column) const {
    const int64_t s = slot_of(column);
    const auto i = static_cast<size_t>(s);
    if (hotness[i] == 1) return fmt::format("key of slot {}", s);
    return fmt::format("key {} of slot {}", column - first_column[i], s);
  }
};

}  // namespace hlite
