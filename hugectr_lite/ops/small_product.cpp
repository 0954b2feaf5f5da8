#include "hugectr_lite/ops/small_product.h"

#include <algorithm>

#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/lanes.h"

namespace hlite::ops {
namespace {

// kRows x kVectors vectors of c. Few rows leave most of the time between two sums of one element
// unused: they have several sums for each, of every kChains-th term, added up at the end.
template <int kLanes, int kRows, int kVectors>
HLITE_INLINE void multiply_tile(int64_t k, LeftFactor a, StridedMatrix<const float> b,
                                StridedMatrix<float> c, bool add) {
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  Lanes<kLanes> sums[kChains][kRows][kVectors] = {};
  if (add)
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sums[0][r][v] = load<kLanes>(c.data + r * c.stride + v * kLanes);
  const auto step = [&](int chain, int64_t p) __attribute__((always_inline)) {
    Lanes<kLanes> row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = load<kLanes>(b.data + p * b.stride + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const float x = a.data[r * a.row + p * a.column];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[chain][r][v] += x * row[v];
    }
  };
  int64_t p = 0;
  for (; p + kChains <= k; p += kChains)
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) step(chain, p + chain);
  for (; p < k; ++p) step(0, p);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Lanes<kLanes> sum = sums[0][r][v];
#pragma GCC unroll 4
      for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][r][v];
      store(c.data + r * c.stride + v * kLanes, sum);
    }
}

// All rows of kVectors vectors of columns; kMany: as many rows as the registers have sums for.
template <int kLanes, int kVectors, int kMany>
HLITE_INLINE void multiply_small_columns(int64_t m, int64_t k, LeftFactor a,
                                         StridedMatrix<const float> b, StridedMatrix<float> c,
                                         bool add) {
  int64_t i = 0;
  const auto rows = [&]<int kRows>() __attribute__((always_inline)) {
    for (; i + kRows <= m; i += kRows)
      multiply_tile<kLanes, kRows, kVectors>(k, {a.data + i * a.row, a.row, a.column}, b,
                                             {c.data + i * c.stride, c.stride}, add);
  };
  rows.template operator()<kMany>();
  rows.template operator()<4>();
  rows.template operator()<2>();
  rows.template operator()<1>();
}

// c[0 ... 7] of one row of a and eight of b; the last ones may be the same.
template <int kLanes>
HLITE_INLINE Eight dot_eight(int64_t k, const float* a, const float* const (&b)[8]) {
  Lanes<kLanes> sums[8] = {};
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) {
    const auto x = load<kLanes>(a + p);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sums[j] += x * load<kLanes>(b[j] + p);
  }
  Eight dots = horizontal_sums(sums);
  for (; p < k; ++p)
    dots += a[p] * Eight{b[0][p], b[1][p], b[2][p], b[3][p], b[4][p], b[5][p], b[6][p], b[7][p]};
  return dots;
}

}  // namespace

void small_product(int64_t m, int64_t n, int64_t k, LeftFactor a, StridedMatrix<const float> b,
                   StridedMatrix<float> c, bool add) {
  wide([&]<int kLanes>() {
    constexpr int kMany = kLanes == 16 ? 12 : 6;
    const auto columns = [&]<int kOf, int kVectors>(int64_t j) __attribute__((always_inline)) {
      multiply_small_columns<kOf, kVectors, kMany>(m, k, a, {b.data + j, b.stride},
                                                   {c.data + j, c.stride}, add);
    };
    int64_t j = 0;
    for (; j + 2 * kLanes <= n; j += 2 * kLanes) columns.template operator()<kLanes, 2>(j);
    for (; j + kLanes <= n; j += kLanes) columns.template operator()<kLanes, 1>(j);
    for (; j < n && n >= 8; j += 8)  // what is left, with columns before it for a whole vector
      columns.template operator()<8, 1>(std::min(j, n - 8));
    for (; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += a.data[i * a.row + p * a.column] * b.data[p * b.stride + j];
        c.data[i * c.stride + j] = sum;
      }
  });
}

void small_product_of_rows(int64_t m, int64_t n, int64_t k, StridedMatrix<const float> a,
                           StridedMatrix<const float> b, StridedMatrix<float> c) {
  wide([&]<int kLanes>() {
    for (int64_t j = 0; j < n; j += 8) {
      const float* rows[8];
      for (int64_t r = 0; r < 8; ++r) rows[r] = b.data + std::min(j + r, n - 1) * b.stride;
      for (int64_t i = 0; i < m; ++i) {
        const float* const x = a.data + i * a.stride;
        float* const to = c.data + i * c.stride + j;
        const Eight dots = k % 16 < 8 ? dot_eight<kLanes>(k, x, rows) : dot_eight<8>(k, x, rows);
        if (j + 8 <= n) {
          store(to, dots);
        } else {
          float edge[8];
          store(edge, dots);
          std::copy_n(edge, n - j, to);
        }
      }
    }
  });
}

}  // namespace hlite::ops
