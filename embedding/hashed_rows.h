// The rows that one rank holds of tables whose keys are not known beforehand (the ...Hash embedding
// types): what key is in which row, and the rows that a batch wants.
//
// A key is known by its slot and its number, and gets the next free row when a batch first trains
// it: so rows depend on the order of the batches alone. The rows of all slots share one pool of
// max_vocabulary_size_per_gpu.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "embedding/key_index.h"

namespace hlite::embedding {

// A list of wanted keys as it travels: those of slot 0 ascending, of slot 1, ...
struct KeyList {
  std::span<const uint32_t> counts;  // [slots] keys of each
  std::span<const uint32_t> keys;
};

class HashedRows {
 public:
  // (slot, key, row)
  using OnNew = std::function<void(int64_t, uint32_t, int64_t)>;

  // `ranks`: how many send lists.
  HashedRows(std::string layer, int64_t slots, int64_t capacity, int ranks);
  [[nodiscard]] static int64_t bytes(int64_t capacity) { return KeyIndex::bytes(capacity); }

  // The row of a key, or KeyIndex::kAbsent.
  [[nodiscard]] int64_t find(int64_t slot, uint32_t key) const {
    return index_.find(key_of_slot(slot, key));
  }
  // The row of a key; a new one, and on_new, when it has none. Throws DataError when the table is
  // full.
  int64_t insert(int64_t slot, uint32_t key, const OnNew& on_new);

  // Finds the rows of the list of rank `from`, with new ones where needed.
  void want(int from, const KeyList& list, const OnNew& on_new);
  // Of the last list of that rank: its rows, in its order; ascending, and where each of these
  // stands in the list.
  [[nodiscard]] std::span<const uint32_t> rows(int from) const { return of(from).rows; }
  [[nodiscard]] std::span<const uint32_t> ascending(int from) const { return of(from).ascending; }
  [[nodiscard]] std::span<const uint32_t> order(int from) const { return of(from).order; }

  // [slots] keys, ascending.
  [[nodiscard]] std::vector<std::vector<uint32_t>> keys() const;
  [[nodiscard]] int64_t size() const { return index_.size(); }
  void clear() { index_.clear(); }

 private:
  struct Wanted {
    std::vector<uint32_t> rows, ascending, order;
    std::vector<uint64_t> sorted;  // row << 32 | place in the list
  };
  static uint64_t key_of_slot(int64_t slot, uint32_t key) {
    return static_cast<uint64_t>(slot) << 32 | key;
  }
  [[nodiscard]] const Wanted& of(int from) const { return wanted_[static_cast<size_t>(from)]; }

  std::string layer_;
  int64_t slots_;
  KeyIndex index_;
  std::vector<Wanted> wanted_;  // [ranks]
};

}  // namespace hlite::embedding
