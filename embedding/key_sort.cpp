#include "embedding/key_sort.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hlite::embedding {
namespace {
// A digit's histogram stays in the first-level cache; three digits hold any 32-bit key.
constexpr int kMaxDigitBits = 11;
constexpr int kMaxPasses = 3;
static_assert(kMaxPasses * kMaxDigitBits >= 32 && kSortCounts == kMaxPasses << kMaxDigitBits);

template <bool kPlaces>
int64_t sort_table(const TableLookups& of, uint64_t* pairs, uint64_t* scratch, uint32_t* counts) {
  const Matrix<const uint32_t>& keys = of.keys;
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(of.rows - 1)));
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = passes > 0 ? (bits + passes - 1) / passes : 0;
  const uint32_t mask = (uint32_t{1} << digit_bits) - 1;
  std::fill_n(counts, int64_t{passes} << digit_bits, 0u);

  // Each pass moves to the other buffer; the last one ends in `pairs`.
  uint64_t* from = passes % 2 == 0 ? pairs : scratch;
  uint64_t* to = passes % 2 == 0 ? scratch : pairs;
  int64_t n = 0;
  // The keys of one slot in one sample, the first of them with this number.
  const auto take = [&](const uint32_t* key, int64_t hotness, int64_t number) {
    for (const uint32_t* const end = key + hotness; key < end; ++key, number += kPlaces) {
      if (*key >= of.rows) continue;
      from[n++] = pair_of(*key, number);
      for (int pass = 0; pass < passes; ++pass)
        ++counts[(pass << digit_bits) + ((*key >> (pass * digit_bits)) & mask)];
    }
  };
  const auto numbers = kPlaces ? keys.dim(1) : int64_t{of.slots.count};  // places per sample
  const auto take_slot = [&](int64_t b, int64_t s, int64_t column, int64_t hotness) {
    take(keys.row(b) + column, hotness, b * numbers + (kPlaces ? column : s));
  };
  const auto slots = of.slots.slots_of_table(of.table);
  if (slots.size() == 1) {
    const int64_t s = slots[0], column = of.slots.slots[s].column, hotness = of.slots.hotness(s);
    for (int64_t b = 0; b < keys.dim(0); ++b) take_slot(b, s, column, hotness);
  } else {
    for (int64_t b = 0; b < keys.dim(0); ++b)
      for (const int32_t s : slots) take_slot(b, s, of.slots.slots[s].column, of.slots.hotness(s));
  }
  for (int pass = 0; pass < passes; ++pass) {
    uint32_t* next = counts + (pass << digit_bits);  // where a digit's next pair goes
    uint32_t begin = 0;
    for (uint32_t digit = 0; digit <= mask; ++digit) begin += std::exchange(next[digit], begin);
    const int shift = 32 + pass * digit_bits;
    for (int64_t i = 0; i < n; ++i) to[next[(from[i] >> shift) & mask]++] = from[i];
    std::swap(from, to);
  }
  return n;
}

}  // namespace

int64_t sort_bags(const TableLookups& of, uint64_t* pairs, uint64_t* scratch, uint32_t* counts) {
  return sort_table<false>(of, pairs, scratch, counts);
}

int64_t sort_places(const TableLookups& of, uint64_t* pairs, uint64_t* scratch, uint32_t* counts) {
  return sort_table<true>(of, pairs, scratch, counts);
}

}  // namespace hlite::embedding
