// Transposes of parts of matrices, for the bodies of wide().
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/gemm_piece.h"
#include "hugectr_lite/ops/lanes.h"

namespace hlite::ops {

// tile(i, j) for every multiple of `size` below rows and columns. Lines of the result are written
// whole: rows of a result often lie a power of two apart, so that few of their lines stay in L1.
template <typename Tile>
[[gnu::always_inline]] inline void for_tiles(int64_t rows, int64_t columns, int64_t size,
                                             Tile&& tile) {
  constexpr int64_t kStripe = 256;
  for (int64_t stripe = 0; stripe < rows; stripe += kStripe)
    for (int64_t j = 0; j < columns; j += size)
      for (int64_t i = stripe; i < std::min(stripe + kStripe, rows); i += size) tile(i, j);
}

// to[j][i] = from[i][j] for i < rows, j < columns. They do not overlap.
inline void transpose(StridedMatrix<const float> from, int64_t rows, int64_t columns,
                      StridedMatrix<float> to) {
  constexpr int64_t kTile = 8;
  const int64_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  for_tiles(whole_rows, whole_columns, kTile, [&](int64_t i, int64_t j) {
    const float* const in = from.data + i * from.stride + j;
    float* const out = to.data + j * to.stride + i;
    Eight zipped[8], paired[8];
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
      const Eight even = load<8>(in + r * from.stride), odd = load<8>(in + (r + 1) * from.stride);
      zipped[r] = zip_low(even, odd);
      zipped[r + 1] = zip_high(even, odd);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 8; r += 4) {
      paired[r] = pair_low(zipped[r], zipped[r + 2]);
      paired[r + 1] = pair_high(zipped[r], zipped[r + 2]);
      paired[r + 2] = pair_low(zipped[r + 1], zipped[r + 3]);
      paired[r + 3] = pair_high(zipped[r + 1], zipped[r + 3]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      store(out + r * to.stride, first_halves(paired[r], paired[r + 4]));
      store(out + (r + 4) * to.stride, second_halves(paired[r], paired[r + 4]));
    }
  });
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      std::memcpy(to.data + j * to.stride + i, from.data + i * from.stride + j, sizeof(float));
}

inline void transpose(StridedMatrix<const bf16> from, int64_t rows, int64_t columns,
                      StridedMatrix<bf16> to) {
  constexpr int64_t kTile = 8;
  using U16 = uint16_t __attribute__((vector_size(16)));
  using U32 = uint32_t __attribute__((vector_size(16)));
  using U64 = uint64_t __attribute__((vector_size(16)));
  const int64_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  for_tiles(whole_rows, whole_columns, kTile, [&](int64_t i, int64_t j) {
    U16 in[8];
    U32 pairs[8];
    U64 fours[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) std::memcpy(&in[r], from.data + (i + r) * from.stride + j, 16);
      // Pairs of rows (0, 1), (2, 3), ...: their columns 0 to 3, then 4 to 7.
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
      pairs[r] = (U32)__builtin_shufflevector(in[r], in[r + 1], 0, 8, 1, 9, 2, 10, 3, 11);
      pairs[r + 1] = (U32)__builtin_shufflevector(in[r], in[r + 1], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    // Rows 0 to 3 (h = 0) and 4 to 7: columns 0 and 1, 2 and 3, 4 and 5, 6 and 7.
#pragma GCC unroll 2
    for (int h = 0; h < 8; h += 4)
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        const U32 a = pairs[h + c], b = pairs[h + 2 + c];
        fours[h + 2 * c] = (U64)__builtin_shufflevector(a, b, 0, 4, 1, 5);
        fours[h + 2 * c + 1] = (U64)__builtin_shufflevector(a, b, 2, 6, 3, 7);
      }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const U64 even = __builtin_shufflevector(fours[c], fours[4 + c], 0, 2);
      const U64 odd = __builtin_shufflevector(fours[c], fours[4 + c], 1, 3);
      std::memcpy(to.data + (j + 2 * c) * to.stride + i, &even, 16);
      std::memcpy(to.data + (j + 2 * c + 1) * to.stride + i, &odd, 16);
    }
  });
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      to.data[j * to.stride + i] = from.data[i * from.stride + j];
}

}  // namespace hlite::ops
