// Functions that read, write and update rows of embedding tables on the CPU: fetched ahead of use,
// with the usual widths known to the compiler.
//
// What includes this is compiled with -fopenmp-simd, and with -fno-tree-loop-distribute-patterns so
// that copies stay loops: GCC makes them memcpy, and that a string instruction for long rows, which
// starts too slowly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "embedding/row_rounding_loops.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/float_loops.h"
#include "hugectr_lite/optimizer/update_loops.h"

namespace hlite::embedding {

// Calls body.template operator()<kWidth>() with kWidth = width for the usual widths, else 0.
template <typename Body>
void with_width(int64_t width, Body&& body) {
  switch (width) {
    case 16:
      return body.template operator()<16>();
    case 32:
      return body.template operator()<32>();
    case 64:
      return body.template operator()<64>();
    case 128:
      return body.template operator()<128>();
    default:
      return body.template operator()<0>();
  }
}

// Prefetches every cache line of row[0, width). Rows lie at random places of arrays far larger than
// the caches: without this each row costs a whole memory latency.
template <int kWriteSoon, typename T>
inline void prefetch_row(T* row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t j = 0; j < width; j += kLine) __builtin_prefetch(row + j, kWriteSoon);
}

// Arithmetic on rows of w = kWidth elements, or of any number w where kWidth is 0.
// No two rows overlap.
template <int kWidth>
struct Row {
  static int64_t width(int64_t w) { return kWidth > 0 ? kWidth : w; }
  // Rounded to T, to nearest.
  template <typename From, typename T>
  static void copy(const From* __restrict from, int64_t w, T* __restrict to) {
#pragma omp simd
    for (int64_t j = 0; j < width(w); ++j) to[j] = from_float<T>(to_float(from[j]));
  }
  template <typename T>
  static void add(const T* __restrict from, int64_t w, float* __restrict to) {
#pragma omp simd
    for (int64_t j = 0; j < width(w); ++j) to[j] += to_float(from[j]);
  }
  template <typename T>
  static void add_scaled(float factor, const T* __restrict from, int64_t w, float* __restrict to) {
#pragma omp simd
    for (int64_t j = 0; j < width(w); ++j) to[j] += factor * to_float(from[j]);
  }
  static void scale(float factor, int64_t w, float* to) {
#pragma omp simd
    for (int64_t j = 0; j < width(w); ++j) to[j] *= factor;
  }
};

// One step of rows of W, by row number. Rows of 16 bits are widened, updated in float, and rounded
// back (RowRounding). `step`: its number.
template <optimizer::OptimizerType kType, int kWidth, typename W>
class RowUpdates {
 public:
  RowUpdates(const optimizer::StepScalars& scalars, const UpdatedRows& rows, int64_t step)
      : scalars_(scalars),
        w_(rows.w.as<W>().data()),
        state0_(rows.state0.data()),
        state1_(rows.state1.data()),
        width_(rows.w.dim(1)),
        rounding_(rows.rounding),
        from_zero_(rows.from_zero),
        step_(step) {}

  [[nodiscard]] int64_t width() const { return Row<kWidth>::width(width_); }
  void prefetch(int64_t row) const {
    prefetch_row<1>(w_ + row * width(), width());
    if constexpr (kStates > 0) prefetch_row<1>(state<0>(row), state_width(0));
    if constexpr (kStates > 1) prefetch_row<1>(state<1>(row), state_width(1));
  }
  void update(int64_t row, const float* gradient) const {
    W* const stored = w_ + row * width();
    float* w;
    if constexpr (kNarrow)
      widen(stored, width(), w = wide_row());
    else
      w = stored;
    if constexpr (kStates == 0 && !kNarrow)
      if (from_zero_) std::fill_n(w, width(), 0.0f);
    optimizer::update_row<kType>(scalars_, width(), gradient, w, state<0>(row), state<1>(row));
    if constexpr (kNarrow) rounding_->round(row, step_, w, width(), stored);
  }
  // Rows [begin, end), with gradient 0, of a rule by which they move.
  void without_gradient(int64_t begin, int64_t end) const {
    if constexpr (kNarrow || optimizer::is_row_wise(kType)) {
      const std::vector<float> none(static_cast<size_t>(width()), 0.0f);
      for (int64_t row = begin; row < end; ++row) update(row, none.data());
    } else {
      optimizer::update_elements_without_gradient<kType>(scalars_, (end - begin) * width(),
                                                         w_ + begin * width(), state<0>(begin),
                                                         state<1>(begin));
    }
  }

 private:
  [[nodiscard]] int64_t state_width(int index) const {
    return optimizer::state_width(kType, index, width());
  }
  // The row's state `index`; null where the rule keeps none.
  template <int index>
  [[nodiscard]] float* state(int64_t row) const {
    if constexpr (index >= kStates) return nullptr;
    return (index == 0 ? state0_ : state1_) + row * state_width(index);
  }
  // [width], this thread's.
  [[nodiscard]] float* wide_row() const {
    thread_local std::vector<float> row;  // grows once
    if (std::ssize(row) < width()) row.resize(static_cast<size_t>(width()));
    return row.data();
  }

  static constexpr int kStates = optimizer::state_count(kType);
  static constexpr bool kNarrow = !std::is_same_v<W, float>;
  const optimizer::StepScalars scalars_;
  W* const w_;
  float *const state0_, *const state1_;
  const int64_t width_;
  const RowRounding* const rounding_;
  const bool from_zero_;
  const int64_t step_;
};

// Calls body.template operator()<W, kWidth>() for rows of W, of 16 bits without the width: their
// loops take longer to draw than to count.
template <typename Body>
void with_row_type(const UpdatedRows& rows, Body&& body) {
  with_float_type(rows.w.type(), [&]<typename W>() {
    if constexpr (std::is_same_v<W, float>)
      with_width(rows.w.dim(1), [&]<int kWidth>() { body.template operator()<W, kWidth>(); });
    else
      body.template operator()<W, 0>();
  });
}

}  // namespace hlite::embedding
