// The loops of RowRounding, vectorised. What includes this is compiled as row_access.h says.
#pragma once

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "embedding/row_rounding.h"
#include "hugectr_lite/core/half.h"

namespace hlite::embedding {

template <typename T>
inline void RowRounding::round(int64_t row, int64_t step, const float* from, int64_t width,
                               T* to) const {
  const TableRow of = name_of_row_(row);
  const RowDraws draws{seeds_[static_cast<size_t>(of.table)], of.key, static_cast<uint64_t>(step)};
  int64_t at = 0;
  for (; at + 64 <= width; at += 64) round_columns<8>(draws, at, from + at, 64, to + at);
  for (; at < width; at += 16)
    round_columns<2>(draws, at, from + at, std::min<int64_t>(16, width - at), to + at);
}

// The words of blocks first and first + 1. A chain of ten rounds takes as long for two of them,
// side by side, as for one.
inline void RowRounding::two_blocks(const RowDraws& of, uint32_t first, uint32_t* words /*[8]*/) {
#if defined(__SSE2__)
  // A 64-bit lane each; of what lies above a word's 32 bits nothing is read.
  const auto both = [](uint64_t x) { return _mm_set1_epi64x(static_cast<long long>(x)); };
  __m128i a = _mm_set_epi64x(int64_t{first} + 1, first), b = both(of.key), c = both(of.step),
          d = both(of.step >> 32), k0 = both(of.seed), k1 = both(of.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m128i p0 = _mm_mul_epu32(a, both(0xD2511F53u)),
                  p1 = _mm_mul_epu32(c, both(0xCD9E8D57u));
    a = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p1, 32), b), k0);
    b = p1;
    c = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(p0, 32), d), k1);
    d = p0;
    k0 = _mm_add_epi32(k0, both(0x9E3779B9u));
    k1 = _mm_add_epi32(k1, both(0xBB67AE85u));
  }
  const __m128i low = both(0xffffffffu),
                ab = _mm_or_si128(_mm_and_si128(a, low), _mm_slli_epi64(b, 32)),
                cd = _mm_or_si128(_mm_and_si128(c, low), _mm_slli_epi64(d, 32));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), _mm_unpacklo_epi64(ab, cd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words + 4), _mm_unpackhi_epi64(ab, cd));
#else
  for (uint32_t b = 0; b < 2; ++b) {
    const random::Block block = of.block(first + b);
    std::memcpy(words + 4 * b, block.word, sizeof(block.word));
  }
#endif
}

template <int kBlocks, typename T>
inline void RowRounding::round_columns(const RowDraws& of, int64_t first,
                                       const float* __restrict from, int64_t n, T* __restrict to) {
  uint32_t words[4 * kBlocks];
  for (int b = 0; b < kBlocks; b += 2)
    two_blocks(of, static_cast<uint32_t>(first / 8 + b), words + 4 * b);
  uint16_t draws[8 * kBlocks];  // the lower half of a word first
  static_assert(sizeof(draws) == sizeof(words));
  std::memcpy(draws, words, sizeof(draws));
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] = round_stochastically<T>(from[j], draws[j]);
}

}  // namespace hlite::embedding
