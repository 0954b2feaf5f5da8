#include "hugectr_lite/ops/row_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/lanes.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

// Rows of b that are multiplied before the next ones: a packed panel of them stays in L2.
constexpr int64_t kBlockDepth = 512;
// From this many rows of a on, copying a panel of b costs less than walking down its columns.
constexpr int64_t kPackedRows = 48;
constexpr int64_t kWidestPanel = 2 * 16;  // columns that are packed

// Adds a [kRows, depth] b [depth, kVectors * kLanes] to the first `columns` columns of c. `first`:
// c is written without being read.
template <int kLanes, int kRows, int kVectors>
HLITE_INLINE void sum_tile(int64_t depth, StridedMatrix<const float> a,
                           StridedMatrix<const float> b, StridedMatrix<float> c, int64_t columns,
                           bool first) {
  using V = Lanes<kLanes>;
  constexpr int64_t kWidth = kLanes * kVectors;
  const bool whole = columns == kWidth;
  V sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float edge[kWidth] = {};
    const float* from = c.data + r * c.stride;
    if (!first && !whole) from = std::copy_n(from, columns, edge) - columns;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = first ? V{} : load<kLanes>(from + v * kLanes);
  }
  for (int64_t p = 0; p < depth; ++p) {
    V row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = load<kLanes>(b.data + p * b.stride + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const float x = a.data[r * a.stride + p];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] += x * row[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    float edge[kWidth];
    float* const to = whole ? c.data + r * c.stride : edge;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(to + v * kLanes, sums[r][v]);
    if (!whole) std::copy_n(edge, columns, c.data + r * c.stride);
  }
}

// One panel of kVectors vectors of columns, for all m rows: tiles of many rows, then of few.
template <int kLanes, int kVectors>
HLITE_INLINE void sum_panel(int64_t m, int64_t depth, StridedMatrix<const float> a,
                            StridedMatrix<const float> b, StridedMatrix<float> c, int64_t columns,
                            bool first) {
  // As many sums as the registers hold beside the factors: 32 of AVX-512, 16 of AVX2.
  constexpr int kMany = kLanes == 16 ? 12 : 6;
  int64_t i = 0;
  const auto rows = [&]<int kRows>() {
    for (; i + kRows <= m; i += kRows)
      sum_tile<kLanes, kRows, kVectors>(depth, {a.data + i * a.stride, a.stride}, b,
                                        {c.data + i * c.stride, c.stride}, columns, first);
  };
  rows.template operator()<kMany>();
  rows.template operator()<4>();
  rows.template operator()<1>();
}

// The panel's columns of b, zeros beyond them.
template <int64_t kWidth>
HLITE_INLINE void pack_columns(StridedMatrix<const float> b, int64_t depth, int64_t columns,
                               float* to) {
  for (int64_t p = 0; p < depth; ++p, to += kWidth) {
    if (columns == kWidth) {
      std::memcpy(to, b.data + p * b.stride, sizeof(float) * kWidth);
    } else {
      std::fill_n(to, kWidth, 0.0f);
      std::copy_n(b.data + p * b.stride, columns, to);
    }
  }
}

// All columns from `j` on that fill panels of kVectors vectors; with kRest also what is left, which
// may be narrower.
template <int kLanes, int kVectors, bool kRest>
HLITE_INLINE void sum_panels(int64_t m, int64_t n, int64_t depth, StridedMatrix<const float> a,
                             StridedMatrix<const float> b, StridedMatrix<float> c, bool first,
                             float* packed, int64_t& j) {
  constexpr int64_t kWidth = kLanes * kVectors;
  for (; kRest ? j < n : j + kWidth <= n; j += kWidth) {
    const int64_t columns = std::min(kWidth, n - j);
    StridedMatrix<const float> of{b.data + j, b.stride};
    if (m >= kPackedRows || columns < kWidth) {
      pack_columns<kWidth>(of, depth, columns, packed);
      of = {packed, kWidth};
    }
    sum_panel<kLanes, kVectors>(m, depth, a, of, {c.data + j, c.stride}, columns, first);
  }
}

template <int kLanes>
HLITE_INLINE void sum_block(int64_t m, int64_t n, int64_t depth, StridedMatrix<const float> a,
                            StridedMatrix<const float> b, StridedMatrix<float> c, bool first,
                            float* packed) {
  int64_t j = 0;
  if (m < 4)  // a row alone: independent sums must come from its columns
    for (int64_t i = 0; i < m; ++i) {
      const StridedMatrix<const float> row{a.data + i * a.stride, a.stride};
      const StridedMatrix<float> to{c.data + i * c.stride, c.stride};
      j = 0;
      sum_panels<kLanes, 8, false>(1, n, depth, row, b, to, first, packed, j);
      sum_panels<kLanes, 1, true>(1, n, depth, row, b, to, first, packed, j);
    }
  else {
    sum_panels<kLanes, 2, false>(m, n, depth, a, b, c, first, packed, j);
    sum_panels<kLanes, 1, true>(m, n, depth, a, b, c, first, packed, j);
  }
}

}  // namespace

void row_product(int64_t m, int64_t n, int64_t k, StridedMatrix<const float> a,
                 StridedMatrix<const float> b, StridedMatrix<float> c) {
  if (n == 1 || k == 0) {
    // A single column has one sum a row, which vectors share: the only order there is.
    wide([&] {
      for (int64_t i = 0; i < m; ++i) {
        const float* const row = a.data + i * a.stride;
        for (int64_t j = 0; j < n; ++j)
          c.data[i * c.stride + j] =
              row_sum(k, [&](int64_t p) { return row[p] * b.data[p * b.stride + j]; });
      }
    });
    return;
  }
  thread_local std::vector<float> packed(static_cast<size_t>(kBlockDepth * kWidestPanel));
  for (int64_t p = 0; p < k; p += kBlockDepth) {
    const int64_t depth = std::min(kBlockDepth, k - p);
    const StridedMatrix<const float> left{a.data + p, a.stride};
    const StridedMatrix<const float> right{b.data + p * b.stride, b.stride};
    wide([&]<int kLanes>() {
      sum_block<kLanes>(m, n, depth, left, right, c, p == 0, packed.data());
    });
  }
}

}  // namespace hlite::ops
