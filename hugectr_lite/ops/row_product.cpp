#include "hugectr_lite/ops/row_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/lanes.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

// Rows of b that are multiplied before the next ones: a panel of them stays in L1, packed rows of a
// in L2.
constexpr int64_t kBlockDepth = 256;
// From this many rows of a on, packing a and b costs less than walking down columns of b, and than
// rows of a that lie a power of two apart and share a set of L1.
constexpr int64_t kPackedRows = 12;
constexpr int64_t kBlockRows = 240;  // of a that are packed: tiles of 6 and of 12 fill them
// Panels of b that are packed together, because a longer stretch of a row of b is read faster.
constexpr int64_t kPackedPanels = 8;
constexpr int64_t kWidestPanel = 2 * 16;  // columns that are packed

// kRows rows of a as sum_tile reads them: as they lie, or packed, [depth, kRows].
template <int kRows, bool kPacked>
struct TileRows {
  StridedMatrix<const float> a;
  [[nodiscard]] HLITE_INLINE float at(int r, int64_t p) const {
    return kPacked ? a.data[p * kRows + r] : a.data[r * a.stride + p];
  }
};

// Adds a [kRows, depth] b [depth, kVectors * kLanes] to the first `columns` columns of c. `first`:
// c is written without being read.
template <int kLanes, int kRows, int kVectors, bool kPacked>
HLITE_INLINE void sum_tile(int64_t depth, TileRows<kRows, kPacked> a, StridedMatrix<const float> b,
                           StridedMatrix<float> c, int64_t columns, bool first) {
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
      const float x = a.at(r, p);
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

// Rows of a tile: as many sums as the registers hold in addition to the factors, 32 of AVX-512, 16
// of AVX2.
template <int kLanes>
constexpr int kTileRows = kLanes == 16 ? 12 : 6;

// Whole tiles of rows of a, [tiles, depth, kTileRows].
template <int kLanes>
HLITE_INLINE void pack_rows(StridedMatrix<const float> a, int64_t m, int64_t depth, float* to) {
  constexpr int kRows = kTileRows<kLanes>;
  for (int64_t i = 0; i + kRows <= m; i += kRows, to += depth * kRows)
    for (int r = 0; r < kRows; ++r) {
      const float* const from = a.data + (i + r) * a.stride;
      for (int64_t p = 0; p < depth; ++p) to[p * kRows + r] = from[p];
    }
}

// One panel of kVectors vectors of columns, for all m rows: tiles of many rows, then of few.
// `packed`: the rows of the former, or null.
template <int kLanes, int kVectors>
HLITE_INLINE void sum_panel(int64_t m, int64_t depth, StridedMatrix<const float> a,
                            const float* packed, StridedMatrix<const float> b,
                            StridedMatrix<float> c, int64_t columns, bool first) {
  int64_t i = 0;
  const auto rows = [&]<int kRows>() {
    for (; i + kRows <= m; i += kRows)
      sum_tile<kLanes, kRows, kVectors, false>(depth, {{a.data + i * a.stride, a.stride}}, b,
                                               {c.data + i * c.stride, c.stride}, columns, first);
  };
  constexpr int kMany = kTileRows<kLanes>;
  if (packed)
    for (; i + kMany <= m; i += kMany)
      sum_tile<kLanes, kMany, kVectors, true>(depth, {{packed + i * depth, 0}}, b,
                                              {c.data + i * c.stride, c.stride}, columns, first);
  rows.template operator()<kMany>();
  rows.template operator()<4>();
  rows.template operator()<2>();
  rows.template operator()<1>();
}

// Columns of b in panels of kWidth, [panels, depth, kWidth], zeros beyond the last.
template <int64_t kWidth>
HLITE_INLINE void pack_columns(StridedMatrix<const float> b, int64_t depth, int64_t columns,
                               float* to) {
  for (int64_t p = 0; p < depth; ++p)
    for (int64_t j = 0; j < columns; j += kWidth) {
      const float* const from = b.data + p * b.stride + j;
      float* const panel = to + j * depth + p * kWidth;
      if (columns - j >= kWidth) {
        std::memcpy(panel, from, sizeof(float) * kWidth);
      } else {
        std::fill_n(panel, kWidth, 0.0f);
        std::copy_n(from, columns - j, panel);
      }
    }
}

struct PackedFactors {
  std::vector<float> a = std::vector<float>(static_cast<size_t>(kBlockRows * kBlockDepth));
  std::vector<float> b =
      std::vector<float>(static_cast<size_t>(kBlockDepth * kWidestPanel * kPackedPanels));
};

// All columns from `j` on that fill panels of kVectors vectors; with kRest also what is left, which
// may be narrower.
template <int kLanes, int kVectors, bool kRest>
HLITE_INLINE void sum_panels(int64_t m, int64_t n, int64_t depth, StridedMatrix<const float> a,
                             StridedMatrix<const float> b, StridedMatrix<float> c, bool first,
                             PackedFactors& factors, int64_t& j) {
  constexpr int64_t kWidth = kLanes * kVectors;
  const bool packs = m >= kPackedRows;
  const int64_t end = kRest ? n : j + (n - j) / kWidth * kWidth;
  while (j < end) {
    const int64_t most = packs ? kPackedPanels * kWidth : kWidth;
    const int64_t together = std::min(most, end - j);
    const bool packed = packs || together < kWidth;
    if (packed) pack_columns<kWidth>({b.data + j, b.stride}, depth, together, factors.b.data());
    for (int64_t at = 0; at < together; at += kWidth) {
      StridedMatrix<const float> of{b.data + j + at, b.stride};
      if (packed) of = {factors.b.data() + at * depth, kWidth};
      sum_panel<kLanes, kVectors>(m, depth, a, packs ? factors.a.data() : nullptr, of,
                                  {c.data + j + at, c.stride}, std::min(kWidth, together - at),
                                  first);
    }
    j += together;
  }
}

template <int kLanes>
HLITE_INLINE void sum_block(int64_t m, int64_t n, int64_t depth, StridedMatrix<const float> a,
                            StridedMatrix<const float> b, StridedMatrix<float> c, bool first,
                            PackedFactors& factors) {
  int64_t j = 0;
  if (m < 4) {  // a row alone: independent sums must come from its columns
    for (int64_t i = 0; i < m; ++i) {
      const StridedMatrix<const float> row{a.data + i * a.stride, a.stride};
      const StridedMatrix<float> to{c.data + i * c.stride, c.stride};
      j = 0;
      sum_panels<kLanes, 8, false>(1, n, depth, row, b, to, first, factors, j);
      sum_panels<kLanes, 1, true>(1, n, depth, row, b, to, first, factors, j);
    }
    return;
  }
  if (m >= kPackedRows) pack_rows<kLanes>(a, m, depth, factors.a.data());
  sum_panels<kLanes, 2, false>(m, n, depth, a, b, c, first, factors, j);
  sum_panels<kLanes, 1, true>(m, n, depth, a, b, c, first, factors, j);
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
  thread_local PackedFactors factors;
  for (int64_t i = 0; i < m; i += kBlockRows)
    for (int64_t p = 0; p < k; p += kBlockDepth) {
      const int64_t depth = std::min(kBlockDepth, k - p);
      const StridedMatrix<const float> left{a.data + i * a.stride + p, a.stride};
      const StridedMatrix<const float> right{b.data + p * b.stride, b.stride};
      wide([&]<int kLanes>() {
        sum_block<kLanes>(std::min(kBlockRows, m - i), n, depth, left, right,
                          {c.data + i * c.stride, c.stride}, p == 0, factors);
      });
    }
}

}  // namespace hlite::ops
