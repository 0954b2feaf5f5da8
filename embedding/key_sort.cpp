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
}  // namespace

int64_t sort_pairs(Matrix<const uint32_t> keys, int64_t column, int64_t hotness, int64_t rows,
                   uint64_t* pairs, uint64_t* scratch, uint32_t* counts) {
  const int64_t batch = keys.dim(0), stride = keys.dim(1);
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(rows - 1)));
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = passes > 0 ? (bits + passes - 1) / passes : 0;
  const uint32_t mask = (uint32_t{1} << digit_bits) - 1;
  std::fill_n(counts, int64_t{passes} << digit_bits, 0u);

  // Each pass moves to the other buffer; the last one ends in `pairs`.
  uint64_t* from = passes % 2 == 0 ? pairs : scratch;
  uint64_t* to = passes % 2 == 0 ? scratch : pairs;
  const uint32_t* first = keys.data() + column;
  int64_t n = 0;
  for (int64_t b = 0; b < batch; ++b, first += stride) {
    for (const uint32_t* key = first; key < first + hotness; ++key) {
      if (*key >= rows) continue;
      from[n++] = pair_of(*key, b);
      for (int pass = 0; pass < passes; ++pass)
        ++counts[(pass << digit_bits) + ((*key >> (pass * digit_bits)) & mask)];
    }
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

}  // namespace hlite::embedding
