#include "embedding/lookup.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "embedding/row_access.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::embedding {
namespace {
// Rows prefetched before they are copied.
constexpr int64_t kRowsAhead = 24;
// Rows below which a second thread costs more than it brings.
constexpr int64_t kGrainRows = 512;

// Always one key a slot, in adjacent columns from the first on; samples [begin, end). A row is
// fetched `ahead` samples early, for the same slot.
template <int kWidth, typename W, typename T>
void copy_rows(const SlotsRef& of, const W* table, Matrix<const uint32_t> keys, View<T, 3> out,
               int64_t begin, int64_t end) {
  const int64_t slots = of.count;
  const int64_t width = kWidth > 0 ? kWidth : of.width;
  const int64_t ahead = (kRowsAhead + slots - 1) / slots;
  const SlotRef* const slot = of.slots;
  const auto fetch = [&](int64_t b, int64_t s) {
    prefetch_row<0>(table + (slot[s].first_row + keys.row(b)[s]) * width, width);
  };
  for (int64_t b = begin; b < std::min(begin + ahead, end); ++b)
    for (int64_t s = 0; s < slots; ++s) fetch(b, s);
  for (int64_t b = begin; b < end; ++b) {
    const uint32_t* key = keys.row(b);
    T* to = out.row(b);
    const bool more = b + ahead < end;
    for (int64_t s = 0; s < slots; ++s, to += width) {
      assert(key[s] < slot[s].rows);
      if (more) fetch(b + ahead, s);
      Row<kWidth>::copy(table + (slot[s].first_row + key[s]) * width, width, to);
    }
  }
}

// Any number of keys a slot, samples [begin, end). A row is fetched kRowsAhead columns early. T of
// 16 bits: rows are added up in sum [width].
template <int kWidth, typename W, typename T>
void pool_rows(const SlotsRef& of, const W* table, Matrix<const uint32_t> keys, View<T, 3> out,
               int64_t begin, int64_t end, float* sum) {
  const int64_t slots = of.count;
  const int64_t width = kWidth > 0 ? kWidth : of.width;
  // Walks the columns of all samples ahead of what is being added.
  struct LookupCursor {
    int64_t b, s = 0, column;
  } next{.b = begin, .column = of.first_column};
  const auto fetch_next = [&] {
    if (next.b >= end) return;
    const SlotRef& slot = of.slots[next.s];
    if (const uint32_t key = keys.row(next.b)[next.column]; key < slot.rows)
      prefetch_row<0>(table + (slot.first_row + key) * width, width);
    if (++next.column < of.slots[next.s + 1].column) return;
    if (++next.s < slots) return;
    next = {.b = next.b + 1, .column = of.first_column};
  };
  for (int64_t i = 0; i < kRowsAhead; ++i) fetch_next();
  for (int64_t b = begin; b < end; ++b) {
    T* row_out = out.row(b);
    for (int64_t s = 0; s < slots; ++s, row_out += width) {
      float* to = sum;
      if constexpr (std::is_same_v<T, float>) to = row_out;
      const SlotRef slot = of.slots[s];
      const uint32_t* key = keys.row(b) + slot.column;
      const W* rows = table + slot.first_row * width;
      const int64_t hotness = of.hotness(s);
      int64_t n = 0;
      for (int64_t k = 0; k < hotness; ++k) {
        fetch_next();
        if (key[k] >= slot.rows) continue;
        if (n++ == 0)
          Row<kWidth>::copy(rows + key[k] * width, width, to);
        else
          Row<kWidth>::add(rows + key[k] * width, width, to);
      }
      if (n == 0) std::fill_n(to, width, 0.f);
      if (of.mean && n > 1) Row<kWidth>::scale(1 / static_cast<float>(n), width, to);
      if constexpr (!std::is_same_v<T, float>) narrow(to, width, row_out);
    }
  }
}

template <typename W, typename T>
void lookup_on_cpu(const Exec& exec, const SlotsRef& slots, Matrix<const W> table,
                   Matrix<const uint32_t> keys, View<T, 3> out) {
  if (slots.count == 0) return;
  const bool copies = slots.one_hot() && slots.complete;
  const Matrix<const uint32_t> own(keys.data() + slots.first_column, keys.dim(0), keys.dim(1));
  with_width(slots.width, [&]<int kWidth>() {
    const int64_t grain = kGrainRows / slots.lookups + 1;
    exec.threads().parallel_for(keys.dim(0), grain, [&](int64_t begin, int64_t end) {
      thread_local std::vector<float> sum;  // grows once
      if (!std::is_same_v<T, float>) sum.resize(static_cast<size_t>(slots.width));
      wide([&, sum = sum.data()] {
        if (copies)
          copy_rows<kWidth>(slots, table.data(), own, out, begin, end);
        else
          pool_rows<kWidth>(slots, table.data(), keys, out, begin, end, sum);
      });
    });
  });
}
}  // namespace

template <typename T>
void lookup_forward(const Exec& exec, const SlotsRef& slots, const ConstWeightRows& table,
                    Matrix<const uint32_t> keys, View<T, 3> out, const KeyRecorder& check) {
  HLITE_CHECK(table.dim(0) == slots.total_rows && table.dim(1) == slots.width,
              "lookup: table {}, expected [{},{}]", table.shape(), slots.total_rows, slots.width);
  HLITE_CHECK(keys.dim(1) == slots.columns && out.dim(0) == keys.dim(0) &&
                  out.dim(1) == slots.count && out.dim(2) == slots.width,
              "lookup: keys {} of {} columns, out {}, {} slots of width {}", keys.shape(),
              slots.columns, out.shape(), slots.count, slots.width);
  if (exec.on_gpu()) return kernels::lookup_forward<T>(exec, slots, table, keys, out, check);
  if constexpr (kOnCpu<T>)
    with_float_type(table.type(),
                    [&]<typename W>() { lookup_on_cpu(exec, slots, table.as<W>(), keys, out); });
  else
    raise("lookup: fp16 needs a GPU");
}

HLITE_INSTANTIATE_FLOATS(lookup_forward)

}  // namespace hlite::embedding
