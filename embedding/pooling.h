// Pooling: which columns of a batch's keys an embedding layer reads, and how the rows they name
// become one vector a slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "hugectr_lite/core/key_layout.h"

namespace hlite::embedding {

enum class Combiner {
  kSum,
  kMean,  // of the keys that a sample has in the slot
};

struct Pooling {
  KeyLayout keys;          // of the whole batch
  int64_t first_slot = 0;  // the layer's slot 0 among them
  int64_t slots = 0;       // of the layer
  Combiner combiner = Combiner::kSum;
  bool complete = false;  // no column is ever without a key: the data's format says so

  Pooling() = default;
  // A layer that has all slots.
  explicit Pooling(KeyLayout layout, Combiner how = Combiner::kSum)
      : keys(std::move(layout)), slots(keys.slots()), combiner(how) {}
  // One key a slot, always.
  static Pooling one_hot(int64_t slots) {
    Pooling pooling(KeyLayout::one_hot(slots));
    pooling.complete = true;
    return pooling;
  }

  // Of the layer's slot s: how many columns it has at most, and the first of them.
  [[nodiscard]] int64_t hotness(int64_t s) const {
    return keys.hotness[static_cast<size_t>(first_slot + s)];
  }
  [[nodiscard]] int64_t column(int64_t s) const {
    return keys.first_column[static_cast<size_t>(first_slot + s)];
  }
  // Of the layer.
  [[nodiscard]] int64_t columns() const {
    return slots == 0 ? 0 : column(slots - 1) + hotness(slots - 1) - column(0);
  }
  [[nodiscard]] bool is_one_hot() const { return columns() == slots; }
  [[nodiscard]] int64_t most_hotness() const {
    int64_t most = 0;
    for (int64_t s = 0; s < slots; ++s) most = std::max(most, hotness(s));
    return most;
  }
  // Whether gradients of the slot's rows are scaled.
  [[nodiscard]] bool scales(int64_t s) const {
    return combiner == Combiner::kMean && hotness(s) > 1;
  }
};

}  // namespace hlite::embedding
