// How rows of embedding tables are read, written and updated on the CPU: fetched ahead of use, with
// the usual widths known to the compiler.
//
// What includes this is compiled with -fopenmp-simd, and with -fno-tree-loop-distribute-patterns so
// that copies stay loops: GCC makes them memcpy, and that a string instruction for long rows, which
// starts too slowly.
#pragma once

#include <cstdint>

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

// Asks for every cache line of row[0, width). Rows lie at random places of arrays far larger than
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
  // Rounded to T.
  template <typename T>
  static void copy(const float* __restrict from, int64_t w, T* __restrict to) {
#pragma omp simd
    for (int64_t j = 0; j < width(w); ++j) to[j] = from_float<T>(from[j]);
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

// One step of rows, by row number.
template <optimizer::OptimizerType kType, int kWidth>
class RowUpdates {
 public:
  RowUpdates(const optimizer::StepScalars& scalars, const UpdatedRows& rows)
      : scalars_(scalars),
        w_(rows.w.data()),
        state0_(rows.state0.data()),
        state1_(rows.state1.data()),
        width_(rows.w.dim(1)) {}

  [[nodiscard]] int64_t width() const { return Row<kWidth>::width(width_); }
  void prefetch(int64_t row) const {
    const int64_t at = row * width();
    prefetch_row<1>(w_ + at, width());
    if constexpr (kStates > 0) prefetch_row<1>(state0_ + at, width());
    if constexpr (kStates > 1) prefetch_row<1>(state1_ + at, width());
  }
  void update(int64_t row, const float* gradient) const {
    const int64_t at = row * width();
    optimizer::update_elements<kType>(scalars_, width(), gradient, w_ + at,
                                      kStates > 0 ? state0_ + at : nullptr,
                                      kStates > 1 ? state1_ + at : nullptr);
  }
  // Rows [begin, end), with gradient 0.
  void without_gradient(int64_t begin, int64_t end) const {
    const int64_t at = begin * width();
    optimizer::update_elements_without_gradient<kType>(scalars_, (end - begin) * width(), w_ + at,
                                                       kStates > 0 ? state0_ + at : nullptr,
                                                       kStates > 1 ? state1_ + at : nullptr);
  }

 private:
  static constexpr int kStates = optimizer::state_count(kType);
  const optimizer::StepScalars scalars_;
  float *const w_, *const state0_, *const state1_;
  const int64_t width_;
};

}  // namespace hlite::embedding
