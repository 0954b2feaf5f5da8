// Sorting the lookups of one table by key: (key, number of the lookup) pairs as key << 32 | number.
//
// A stable radix sort from the lowest digit. Only the bits that a key of the table can have are
// sorted by, so a table of up to 2048 rows takes one counting pass and a table of one row none.
#pragma once

#include <cstdint>

#include "embedding/slots_ref.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

inline uint64_t pair_of(uint32_t key, int64_t number) {
  return uint64_t{key} << 32 | static_cast<uint64_t>(number);
}
inline int64_t key_of(uint64_t pair) { return static_cast<int64_t>(pair >> 32); }
inline int64_t number_of(uint64_t pair) { return static_cast<int64_t>(pair & 0xffffffffu); }

// Numbers that a sort needs to count digits: all passes' histograms at once.
constexpr int64_t kSortCounts = 3 * 2048;

// The lookups that are sorted: the keys in the columns of the table's slots that are below `rows`,
// which is below 2^32. kNoKey is left out.
struct TableLookups {
  Matrix<const uint32_t> keys;  // [B,columns]
  const SlotsRef& slots;
  int64_t table;
  int64_t rows;
};

// Writes the pairs of a table's lookups to `pairs`, by key, then sample, slot and column; returns
// how many there are. `pairs` and `scratch` can hold all lookups of the table. A lookup's
// number is
//   sort_bags     sample * slots + slot: its row of the layer's output
//   sort_places   sample * columns + column: its place in the keys
// and stays below 2^32.
int64_t sort_bags(const TableLookups& of, uint64_t* pairs, uint64_t* scratch,
                  uint32_t* counts /*[kSortCounts]*/);
int64_t sort_places(const TableLookups& of, uint64_t* pairs, uint64_t* scratch,
                    uint32_t* counts /*[kSortCounts]*/);

}  // namespace hlite::embedding
