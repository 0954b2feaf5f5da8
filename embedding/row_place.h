// The place of a row, by the arrays of a RowPlacement: on the CPU and in kernels.
#pragma once

#include <bit>
#include <cstdint>

#include "embedding/table_key.h"
#include "hugectr_lite/core/host_device.h"

namespace hlite::embedding {

// `rank` < 0: row `row` of the replicated ones.
struct RowPlace {
  int rank;
  uint32_t row;
};

// CategoryModel: frequent categories are bits, with the number of frequent ones before each word.
struct CategoriesRef {
  const uint64_t* bits = nullptr;
  const uint32_t* before = nullptr;  // of each word
  const uint32_t* index = nullptr;   // of frequent categories, in ascending order
  uint64_t ranks = 1;

  [[nodiscard]] HLITE_HD RowPlace locate(int64_t category) const {
    const int64_t at = category >> 6;
    const uint64_t word = bits[at], bit = uint64_t{1} << (category & 63);
    const uint32_t below = before[at] + ones(word & (bit - 1));
    if (word & bit) return {-1, index[below]};
    const uint64_t k = static_cast<uint64_t>(category) - below;
    return {static_cast<int>(k % ranks), static_cast<uint32_t>(k / ranks)};
  }

 private:
  [[nodiscard]] static HLITE_HD uint32_t ones(uint64_t word) {
#if defined(__CUDA_ARCH__)
    return static_cast<uint32_t>(__popcll(word));
#else
    return static_cast<uint32_t>(std::popcount(word));
#endif
  }
};

// A key of a table in `count` shards: key k in shard k mod count.
HLITE_HD inline RowPlace shard_place(const int* ranks /*[count]*/,
                                     const int64_t* first_rows /*[count]*/, uint32_t count,
                                     uint32_t key) {
  const uint32_t shard = key % count;
  return {ranks[shard], static_cast<uint32_t>(first_rows[shard] + key / count)};
}

// The rule that decides which rank owns the row of a key in a hashed table.
enum class KeyOwner { kByKey, kByTable };

// Returns that rank: the number of the key or its table, modulo the ranks.
HLITE_HD inline int hashed_rank(KeyOwner by, int64_t table, uint32_t key, int ranks) {
  const uint32_t number = by == KeyOwner::kByTable ? static_cast<uint32_t>(table) : key;
  return static_cast<int>(number % static_cast<uint32_t>(ranks));
}

}  // namespace hlite::embedding
