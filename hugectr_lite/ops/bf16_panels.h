// Packs the right factor of a product of bf16 into panels (bf16_piece.h), block by block; for the
// bodies of wide().
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/bf16_piece.h"
#include "hugectr_lite/ops/transpose.h"

namespace hlite::ops {

// Two neighbours of a column, the first in the lower half.
using Bf16Pair = uint32_t;
constexpr int64_t kPairRows = kPanelRows / 2;
constexpr int64_t kPanelBlockPairs = kPairRows * kPanelColumns;  // of kPanelRows rows of a panel

// Pairs of a row, null for zeros, and the one below: columns [0, n), and zeros up to a panel's.
inline void interleave(const bf16* upper, const bf16* lower, int64_t n, Bf16Pair* to) {
  if (!upper) n = 0;
  if (lower)
    for (int64_t j = 0; j < n; ++j) to[j] = Bf16Pair{upper[j].bits} | Bf16Pair{lower[j].bits} << 16;
  else
    for (int64_t j = 0; j < n; ++j) to[j] = upper[j].bits;
  std::fill(to + n, to + kPanelColumns, Bf16Pair{0});
}

// From b [k,n] as it is: its rows from `row` on, into a block of each panel; these blocks lie
// `apart` pairs from each other. Goes along whole rows, as processors fetch ahead: those of a wide
// factor lie far from each other.
inline void pack_rows(Matrix<const bf16> b, int64_t row, int64_t apart, Bf16Pair* to) {
  const int64_t n = b.dim(1);
  const auto at = [&](int64_t i) { return i < b.dim(0) ? b.row(i) : nullptr; };
  for (int64_t i = 0; i < kPairRows; ++i) {
    const bf16 *const upper = at(row + 2 * i), *const lower = at(row + 2 * i + 1);
    Bf16Pair* out = to + i * kPanelColumns;
    for (int64_t column = 0; column < n; column += kPanelColumns, out += apart)
      interleave(upper ? upper + column : nullptr, lower ? lower + column : nullptr,
                 std::min(n - column, kPanelColumns), out);
  }
}

// The same from its transpose b [n,k], where pairs are neighbours in a row: pairs are moved as
// floats are, bit by bit, if rows begin at whole pairs.
inline void pack_turned(Matrix<const bf16> b, int64_t row, int64_t column, int64_t columns,
                        Bf16Pair* to) {
  const int64_t k = b.dim(1), rows = std::min(k - row, kPanelRows);
  if (rows < kPanelRows || columns < kPanelColumns) std::fill_n(to, kPanelBlockPairs, Bf16Pair{0});
  if (k % 2 == 0) {
    const auto* const from = reinterpret_cast<const float*>(b.row(column) + row);
    transpose({from, k / 2}, columns, rows / 2, {reinterpret_cast<float*>(to), kPanelColumns});
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const bf16* const from = b.row(column + j) + row;
    for (int64_t i = 0; i < rows / 2; ++i)
      std::memcpy(to + i * kPanelColumns + j, from + 2 * i, sizeof(Bf16Pair));
    if (rows % 2 != 0) to[rows / 2 * kPanelColumns + j] = from[rows - 1].bits;
  }
}

}  // namespace hlite::ops
