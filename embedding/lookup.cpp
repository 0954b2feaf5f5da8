#include "embedding/lookup.h"

#include <algorithm>
#include <cassert>

#include "embedding/row_access.h"
#include "hugectr_lite/core/half.h"

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

template <int kWidth>
void add_row(const float* __restrict from, int64_t width, float* __restrict to) {
  const int64_t n = kWidth > 0 ? kWidth : width;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] += from[j];
}

template <int kWidth>
void scale_row(float by, int64_t width, float* to) {
  const int64_t n = kWidth > 0 ? kWidth : width;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] *= by;
}

// Always one key a slot, in adjacent columns from the first on; samples [begin, end). A row is
// fetched `ahead` samples early, for the same slot.
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

// Any number of keys a slot, samples [begin, end). A row is fetched kRowsAhead columns early.
template <int kWidth>
void pool_rows(const TableLayout& layout, const Pooling& pooling, const float* table,
               Matrix<const uint32_t> keys, View<float, 3> out, int64_t begin, int64_t end) {
  const int64_t slots = layout.slots();
  const int64_t width = kWidth > 0 ? kWidth : layout.width;
  const bool mean = pooling.combiner == Combiner::kMean;
  // Walks the columns of all samples ahead of what is being added.
  struct Cursor {
    int64_t b, s = 0, k = 0;
  } next{begin};
  const auto fetch_next = [&] {
    if (next.b >= end) return;
    const uint32_t key = keys.row(next.b)[pooling.column(next.s) + next.k];
    if (key != kNoKey)
      prefetch_row<0>(table + (layout.offset[static_cast<size_t>(next.s)] + key) * width, width);
    if (++next.k < pooling.hotness(next.s)) return;
    next.k = 0;
    if (++next.s < slots) return;
    next.s = 0;
    ++next.b;
  };
  for (int64_t i = 0; i < kRowsAhead; ++i) fetch_next();
  for (int64_t b = begin; b < end; ++b) {
    float* to = out.row(b);
    for (int64_t s = 0; s < slots; ++s, to += width) {
      const uint32_t* key = keys.row(b) + pooling.column(s);
      const float* rows = table + layout.offset[static_cast<size_t>(s)] * width;
      int64_t n = 0;
      for (int64_t k = 0; k < pooling.hotness(s); ++k) {
        fetch_next();
        if (key[k] == kNoKey) continue;
        assert(key[k] < layout.rows[static_cast<size_t>(s)]);
        if (n++ == 0)
          copy_row<kWidth>(rows + key[k] * width, width, to);
        else
          add_row<kWidth>(rows + key[k] * width, width, to);
      }
      if (n == 0) std::fill_n(to, width, 0.f);
      if (mean && n > 1) scale_row<kWidth>(1 / static_cast<float>(n), width, to);
    }
  }
}
}  // namespace

void lookup_forward(const Exec& exec, const TableLayout& layout, const Pooling& pooling,
                    Matrix<const float> table, Matrix<const uint32_t> keys, View<float, 3> out) {
  const int64_t batch = keys.dim(0), slots = layout.slots();
  HLITE_CHECK(!exec.on_gpu(), "lookup_forward runs on the CPU");
  HLITE_CHECK(table.dim(0) == layout.total_rows && table.dim(1) == layout.width,
              "lookup: table {}, expected [{},{}]", table.shape(), layout.total_rows, layout.width);
  HLITE_CHECK(pooling.slots == slots && keys.dim(1) == pooling.keys.columns &&
                  out.dim(0) == batch && out.dim(1) == slots && out.dim(2) == layout.width,
              "lookup: keys {} of {} columns, out {}, {} slots of width {}", keys.shape(),
              pooling.keys.columns, out.shape(), slots, layout.width);
  if (slots == 0) return;
  const bool copies = pooling.is_one_hot() && pooling.complete;
  const Matrix<const uint32_t> own(keys.data() + pooling.column(0), batch, keys.dim(1));
  with_width(layout.width, [&]<int kWidth>() {
    const int64_t grain = kGrainRows / pooling.columns() + 1;
    exec.threads().parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
      if (copies)
        copy_rows<kWidth>(layout, table.data(), own, out, begin, end);
      else
        pool_rows<kWidth>(layout, pooling, table.data(), keys, out, begin, end);
    });
  });
}

template <typename T>
void lookup_forward(const Exec& exec, const DeviceSlots& slots, Matrix<const float> table,
                    Matrix<const uint32_t> keys, View<T, 3> out, const KeyCheck& check) {
  const SlotsRef& ref = slots.ref();
  HLITE_CHECK(exec.on_gpu(), "lookup_forward: slots on a GPU, no GPU");
  HLITE_CHECK(table.dim(0) == int64_t{ref.total_rows} && table.dim(1) == ref.width,
              "lookup: table {}, expected [{},{}]", table.shape(), ref.total_rows, ref.width);
  HLITE_CHECK(keys.dim(1) == ref.columns && out.dim(0) == keys.dim(0) && out.dim(1) == ref.count &&
                  out.dim(2) == ref.width,
              "lookup: keys {} of {} columns, out {}, {} slots of width {}", keys.shape(),
              ref.columns, out.shape(), ref.count, ref.width);
  kernels::lookup_forward<T>(exec, ref, table, keys, out, check);
}

#define HLITE_INSTANTIATE(T)                                                         \
  template void lookup_forward(const Exec&, const DeviceSlots&, Matrix<const float>, \
                               Matrix<const uint32_t>, View<T, 3>, const KeyCheck&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::embedding
