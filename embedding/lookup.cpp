#include "embedding/lookup.h"

#include <algorithm>
#include <cassert>

#include "embedding/row_access.h"

namespace hlite::embedding {
namespace {
// Rows asked for before they are copied.
constexpr int64_t kRowsAhead = 24;
// Rows below which a second thread costs more than it brings.
constexpr int64_t kGrainRows = 512;

// A loop of known length rather than memcpy, which GCC makes a string instruction for long rows:
// that starts too slowly. (Compiled with -fopenmp-simd and -fno-tree-loop-distribute-patterns,
// which keeps the loop from becoming memcpy after all.)
template <int kWidth>
void copy_row(const float* __restrict from, int64_t width, float* __restrict to) {
  const int64_t n = kWidth > 0 ? kWidth : width;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] = from[j];
}

// Samples [begin, end). A row is fetched `ahead` samples early, for the same slot.
template <int kWidth>
void copy_rows(const TableLayout& layout, const float* table, Matrix<const uint32_t> keys,
               View<float, 3> out, int64_t begin, int64_t end) {
  const int64_t slots = layout.slots();
  const int64_t width = kWidth > 0 ? kWidth : layout.width;
  const int64_t ahead = (kRowsAhead + slots - 1) / slots;
  const int64_t* offset = layout.offset.data();
  const auto fetch = [&](int64_t b, int64_t s) {
    prefetch_row<0>(table + (offset[s] + keys.row(b)[s]) * width, width);
  };
  for (int64_t b = begin; b < std::min(begin + ahead, end); ++b)
    for (int64_t s = 0; s < slots; ++s) fetch(b, s);
  for (int64_t b = begin; b < end; ++b) {
    const uint32_t* key = keys.row(b);
    float* to = out.row(b);
    const bool more = b + ahead < end;
    for (int64_t s = 0; s < slots; ++s, to += width) {
      assert(key[s] < layout.rows[static_cast<size_t>(s)]);
      if (more) fetch(b + ahead, s);
      copy_row<kWidth>(table + (offset[s] + key[s]) * width, width, to);
    }
  }
}
}  // namespace

void lookup_forward(const Exec& exec, const TableLayout& layout, Matrix<const float> table,
                    Matrix<const uint32_t> keys, View<float, 3> out) {
  const int64_t batch = keys.dim(0), slots = layout.slots();
  HLITE_CHECK(!exec.on_gpu(), "lookup_forward runs on the CPU");
  HLITE_CHECK(table.dim(0) == layout.total_rows && table.dim(1) == layout.width,
              "lookup: table {}, expected [{},{}]", table.shape(), layout.total_rows, layout.width);
  HLITE_CHECK(keys.dim(1) == slots && out.dim(0) == batch && out.dim(1) == slots &&
                  out.dim(2) == layout.width,
              "lookup: keys {}, out {}, {} slots of width {}", keys.shape(), out.shape(), slots,
              layout.width);
  if (slots == 0) return;
  with_width(layout.width, [&]<int kWidth>() {
    exec.threads().parallel_for(batch, kGrainRows / slots + 1, [&](int64_t begin, int64_t end) {
      copy_rows<kWidth>(layout, table.data(), keys, out, begin, end);
    });
  });
}

}  // namespace hlite::embedding
