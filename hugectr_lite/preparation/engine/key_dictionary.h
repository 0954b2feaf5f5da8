// KeyDictionary: keys to contiguous ids 0, 1, 2, ... in order of first appearance.
//
// Open addressing in a table of a power of two buckets of 8 keys each, which a processor compares
// at once, at most 5/8 full. Where all keys are known to be below a limit it becomes a plain array
// of ids as soon as that is smaller than the next larger table. Large tables are one cache miss a
// key, so keys are looked up in batches with the memory of later ones fetched ahead. Not
// thread-safe: each column has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/memory_budget.h"

namespace hlite::prep {

template <typename Key>  // uint32_t or uint64_t
class KeyDictionary {
 public:
  // key_limit: all keys are below it; 0: unknown.
  explicit KeyDictionary(MemoryBudget& budget, uint64_t key_limit = 0);

  // The ids of `count` keys, new ones for those that were never seen. Throws OutOfBudget, DataError
  // beyond 2^32 - 2 keys. `ids` may be `keys`. `added`: gets the new ones, too.
  void number(const Key* keys, size_t count, uint32_t* ids, std::vector<Key>* added = nullptr);
  [[nodiscard]] int64_t size() const { return size_; }
  // The id of a key; -1 when it was never seen.
  [[nodiscard]] int64_t find(Key key) const;
  // Calls visit(key, id) for all keys, in no particular order.
  void for_each(FunctionRef<void(Key key, uint32_t id)> visit) const;
  // Memory in use.
  [[nodiscard]] int64_t bytes() const { return buckets_.bytes() + direct_.bytes(); }

 private:
  static constexpr int kBucketKeys = 8;
  // Filled from the first place on; a key that finds its bucket full goes to the next one.
  struct alignas(32) Bucket {
    Key keys[kBucketKeys];
    uint32_t ids_plus_1[kBucketKeys];  // 0: empty
  };
  [[nodiscard]] bool is_direct() const { return direct_.size() > 0; }
  // Fibonacci hashing: the top bits of the product depend on all bits of the key.
  static uint64_t hash(Key key) { return uint64_t{key} * 0x9E3779B97F4A7C15u; }
  [[nodiscard]] size_t home(Key key) const { return static_cast<size_t>(hash(key) >> shift_); }
  // The place of a key, and whether it is there; the empty place where it belongs if not.
  struct Place {
    size_t bucket;
    int at;
    bool found;
  };
  [[nodiscard]] Place place_of(Key key) const;
  // Both number keys from `first` on and return where they stopped: at the end, or where the table
  // was replaced.
  size_t number_in_buckets(const Key* keys, size_t first, size_t count, uint32_t* ids,
                           std::vector<Key>* added);
  size_t number_directly(const Key* keys, size_t first, size_t count, uint32_t* ids,
                         std::vector<Key>* added);
  template <typename Visit>
  static void for_each_in(const BudgetArray<Bucket>& buckets, const Visit& visit);
  uint32_t next_id();
  void grow();
  void become_direct();

  MemoryBudget& budget_;
  const uint64_t key_limit_;
  BudgetArray<Bucket> buckets_;
  BudgetArray<uint32_t> direct_;  // id + 1 of each key, 0: none
  size_t mask_;
  int shift_;  // 64 - log2(buckets)
  int64_t size_ = 0;
};

extern template class KeyDictionary<uint32_t>;
extern template class KeyDictionary<uint64_t>;

}  // namespace hlite::prep
