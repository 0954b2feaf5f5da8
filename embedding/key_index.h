// KeyIndex: which row of a table a key has, for tables whose keys are not known beforehand (the
// ...Hash embedding types): a key gets the next free row when it is first inserted.
//
// Open addressing with linear probing in a power of two of slots, at most half full, sized once:
// inserting allocates nothing. Rows depend on the order of the insertions alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "embedding/row_moves.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::embedding {

class KeyIndex {
 public:
  static constexpr int64_t kAbsent = -1;

  // Holds up to `capacity` keys (max_vocabulary_size_per_gpu), at most 2^32 - 1. `name` is for
  // messages.
  KeyIndex(std::string name, int64_t capacity);

  // The row of `key`, or kAbsent.
  [[nodiscard]] int64_t find(uint64_t key) const {
    const Slot& slot = slots()[place_of(key)];
    return int64_t{slot.row_plus_1} - 1;
  }
  // The row of `key`, a new one when it has none. Throws DataError when the table is full.
  int64_t insert(uint64_t key) {
    const size_t at = place_of(key);
    const Slot& slot = slots()[at];
    return slot.row_plus_1 != 0 ? int64_t{slot.row_plus_1} - 1 : add(key, at);
  }
  // Prefetches the cache line that find() or insert() of `key` will read.
  void prefetch(uint64_t key) const { __builtin_prefetch(slots() + home(key)); }

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  [[nodiscard]] int64_t capacity() const { return capacity_; }
  // Keys in the order of their rows.
  [[nodiscard]] std::span<const uint64_t> keys() const { return keys_; }
  void clear();
  // Lets keys close up: those of the rows `gone` leave, then the key of row moves.from[i] gets row
  // moves.to[i]. `moves` are the closing_moves() of `gone`, ascending.
  void close_up(const RowMoves& moves, std::span<const uint32_t> gone);

  [[nodiscard]] static int64_t bytes(int64_t capacity);
  // Places of a hash table for so many keys: a power of two, at most half of them taken.
  [[nodiscard]] static int64_t places(int64_t capacity) {
    return int64_t{1} << slot_bits(capacity);
  }

 private:
  struct Slot {
    uint64_t key;
    uint32_t row_plus_1;  // 0: empty
  };
  [[nodiscard]] Slot* slots() const { return reinterpret_cast<Slot*>(memory_.data()); }
  // Fibonacci hashing: the top bits of the product depend on all bits of the key.
  [[nodiscard]] size_t home(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_);
  }
  // Returns the place of `key`, or the one where it would go.
  [[nodiscard]] size_t place_of(uint64_t key) const {
    size_t at = home(key);
    while (slots()[at].row_plus_1 != 0 && slots()[at].key != key) at = (at + 1) & mask_;
    return at;
  }
  int64_t add(uint64_t key, size_t at);
  void erase(uint64_t key);
  [[nodiscard]] static int slot_bits(int64_t capacity);

  std::string name_;
  int64_t capacity_;
  int shift_;
  size_t mask_;
  HostMemory memory_;
  std::vector<uint64_t> keys_;
};

}  // namespace hlite::embedding
