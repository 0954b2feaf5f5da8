// Sorting the lookups of one slot by key: (key, sample) pairs as key << 32 | sample.
//
// A stable radix sort from the lowest digit. Only the bits that a key of the slot's table can have
// are sorted by, so a table of up to 2048 rows takes one counting pass and a table of one row none.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

inline uint64_t pair_of(uint32_t key, int64_t sample) {
  return uint64_t{key} << 32 | static_cast<uint64_t>(sample);
}
inline int64_t key_of(uint64_t pair) { return static_cast<int64_t>(pair >> 32); }
inline int64_t sample_of(uint64_t pair) { return static_cast<int64_t>(pair & 0xffffffffu); }

// Numbers that sort_pairs() needs to count digits: all passes' histograms at once.
constexpr int64_t kSortCounts = 3 * 2048;

// Writes the pairs (keys[b, c], b) of all samples b and columns c in [column, column + hotness) to
// `pairs`, by key and then sample, but for kNoKey and other keys from rows < 2^32 on; returns how
// many there are. `pairs` and `scratch` have room for keys.dim(0) * hotness pairs,
// less than 2^32.
int64_t sort_pairs(Matrix<const uint32_t> keys, int64_t column, int64_t hotness, int64_t rows,
                   uint64_t* pairs, uint64_t* scratch, uint32_t* counts /*[kSortCounts]*/);

}  // namespace hlite::embedding
