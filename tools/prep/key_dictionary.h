// KeyDictionary: keys to contiguous ids 0, 1, 2, ... in order of first appearance.
//
// Open addressing with linear probing in a table of a power of two slots, at most 5/8 full. Where
// all keys are known to be below a limit it becomes a plain array of ids as soon as that is smaller
// than the next larger table. Large tables are one cache miss a key, so keys are looked up in
// batches with the memory of later ones fetched ahead. Not thread-safe: each column has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/thread_pool.h"
#include "tools/prep/memory_budget.h"

namespace hlite::tools {

template <typename Key>  // uint32_t or uint64_t
class KeyDictionary {
 public:
  // key_limit: all keys are below it; 0: unknown.
  explicit KeyDictionary(MemoryBudget& budget, uint64_t key_limit = 0);

  // The ids of `count` keys, new ones for those that were never seen. Throws OutOfBudget, DataError
  // beyond 2^32 - 2 keys.
  void number(const Key* keys, size_t count, uint32_t* ids);
  [[nodiscard]] int64_t size() const { return size_; }
  // The id of a key; -1 when it was never seen.
  [[nodiscard]] int64_t find(Key key) const;
  // Calls visit(key, id) for all keys, in no particular order.
  void for_each(FunctionRef<void(Key key, uint32_t id)> visit) const;
  // Memory in use.
  [[nodiscard]] int64_t bytes() const { return slots_.bytes() + direct_.bytes(); }

 private:
  struct HashSlot {
    Key key;
    uint32_t id_plus_1;  // 0: empty
  };
  [[nodiscard]] bool is_direct() const { return direct_.size() > 0; }
  // Fibonacci hashing: the top bits of the product depend on all bits of the key.
  [[nodiscard]] size_t home(Key key) const {
    return static_cast<size_t>((uint64_t{key} * 0x9E3779B97F4A7C15u) >> shift_);
  }
  // Both number keys from `first` on and return where they stopped: at the end, or where one table
  // gave way to the other.
  size_t number_in_slots(const Key* keys, size_t first, size_t count, uint32_t* ids);
  size_t number_directly(const Key* keys, size_t first, size_t count, uint32_t* ids);
  uint32_t next_id();
  void grow();
  void become_direct();

  MemoryBudget& budget_;
  const uint64_t key_limit_;
  BudgetArray<HashSlot> slots_;
  BudgetArray<uint32_t> direct_;  // id + 1 of each key, 0: none
  size_t mask_;
  int shift_;  // 64 - log2(slots)
  int64_t size_ = 0;
};

extern template class KeyDictionary<uint32_t>;
extern template class KeyDictionary<uint64_t>;

}  // namespace hlite::tools
