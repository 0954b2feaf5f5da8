#include "hugectr_lite/ops/bf16_dot.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/wide.h"

#ifdef HLITE_WIDE_VARIANTS
#include <immintrin.h>
#endif

namespace hlite::ops {

#ifdef HLITE_WIDE_VARIANTS

namespace {

#define HLITE_BF16_TARGET [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]]

// Rows of a tile of so many vectors of 16 columns: with a panel's vectors and a factor its sums
// fill the registers.
constexpr int max_rows(int vectors) { return vectors == 4 ? 6 : 12; }
// Pairs of rows of a panel that are used before the next ones, so that they stay in L2.
constexpr int64_t kBlockPairs = 1024;

// Rows of a, and what they meet: pairs [first, end) of a panel.
struct Strip {
  const bf16* a;
  int64_t k;          // of a's rows, which are packed; an odd one leaves the last pair one alone
  const bf16* panel;  // from its first row on
  int64_t first, end;
};

struct Output {
  float* c;
  int64_t stride, columns;  // columns <= those of the tile
  bool adds;
};

// sums += pair p of each row times that of the panel. kOne: of a's the second is missing.
template <int kRows, int kVectors, bool kOne>
HLITE_BF16_TARGET inline void multiply_pair(const Strip& of, int64_t p,
                                            __m512 (&sums)[kRows][kVectors]) {
  const bf16* const from = of.panel + p * 2 * kPanelColumns;
  __m512bh b[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q) b[q] = (__m512bh)_mm512_loadu_si512(from + q * 32);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const bf16* const at = of.a + i * of.k + 2 * p;
    uint32_t pair = at[0].bits;
    if constexpr (!kOne) std::memcpy(&pair, at, sizeof pair);
    const auto a = (__m512bh)_mm512_set1_epi32(static_cast<int>(pair));
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) sums[i][q] = _mm512_dpbf16_ps(sums[i][q], a, b[q]);
  }
}

template <int kRows, int kVectors>
HLITE_BF16_TARGET void tile(const Strip& of, const Output& out) {
  __mmask16 mask[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q) {
    const int64_t left = std::clamp<int64_t>(out.columns - q * 16, 0, 16);
    mask[q] = static_cast<__mmask16>((1u << left) - 1);
  }
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q)
      sums[i][q] = out.adds ? _mm512_maskz_loadu_ps(mask[q], out.c + i * out.stride + q * 16)
                            : _mm512_setzero_ps();
  const int64_t whole = std::min(of.end, of.k / 2);
  for (int64_t p = of.first; p < whole; ++p) multiply_pair<kRows, kVectors, false>(of, p, sums);
  if (whole < of.end) multiply_pair<kRows, kVectors, true>(of, whole, sums);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q)
      _mm512_mask_storeu_ps(out.c + i * out.stride + q * 16, mask[q], sums[i][q]);
}

using Tile = void (*)(const Strip&, const Output&);

// tile<rows, kVectors> at [rows].
template <int kVectors>
constexpr auto tiles_of() {
  return []<int... kRows>(std::integer_sequence<int, kRows...>) {
    return std::array<Tile, sizeof...(kRows) + 1>{nullptr, tile<kRows + 1, kVectors>...};
  }
  (std::make_integer_sequence<int, max_rows(kVectors)>{});
}

// All m rows of a, from `of` on, times a block of one panel's first columns.
template <int kVectors>
void multiply_panel(const Bf16Sizes& s, const Strip& of, const Output& out) {
  static constexpr auto kTiles = tiles_of<kVectors>();
  // Tiles of nearly equal heights: a last one of a row or two would wait for its own sums.
  const int64_t tiles = (s.m + max_rows(kVectors) - 1) / max_rows(kVectors);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = s.m * t / tiles, rows = s.m * (t + 1) / tiles - row;
    kTiles[static_cast<size_t>(rows)]({of.a + row * s.k, s.k, of.panel, of.first, of.end},
                                      {out.c + row * s.n, out.stride, out.columns, out.adds});
  }
}

}  // namespace

bool has_bf16_dot() {
  static const bool has =
      instruction_set() == InstructionSet::kAvx512 && __builtin_cpu_supports("avx512bf16") != 0;
  return has;
}

void bf16_dot_piece(const Bf16Sizes& s, const bf16* a, const bf16* b, float* c) {
  HLITE_CHECK(has_bf16_dot(), "no dot products of bf16 on this processor");
  const int64_t panel_size = in_panel_rows(s.k) * kPanelColumns, pairs = (s.k + 1) / 2;
  // Block by block of k, so that a's part of it stays in L2 for all panels, too.
  for (int64_t first = 0; first < pairs; first += kBlockPairs)
    for (int64_t column = 0; column < s.n; column += kPanelColumns) {
      const int64_t columns = std::min(kPanelColumns, s.n - column);
      const auto multiply = columns <= 16   ? multiply_panel<1>
                            : columns <= 32 ? multiply_panel<2>
                                            : multiply_panel<4>;
      multiply(s,
               {a, s.k, b + column / kPanelColumns * panel_size, first,
                std::min(first + kBlockPairs, pairs)},
               {c + column, s.n, columns, first > 0});
    }
}

#else

bool has_bf16_dot() { return false; }
void bf16_dot_piece(const Bf16Sizes&, const bf16*, const bf16*, float*) {
  raise("this build has no dot products of bf16");
}

#endif

}  // namespace hlite::ops
