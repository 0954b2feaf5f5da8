// The update rules over neighbouring elements on the host, vectorised.
//
// Files that include this are compiled with -fopenmp-simd (the pragmas: without them GCC unrolls
// loops of a known length completely before it thinks of vectors) and -fno-math-errno (errno is
// never read, but setting it would keep square roots scalar).
#pragma once

#include <cstdint>

#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::optimizer {

// Elements [0, n); the arrays must not overlap. States beyond state_count(type) may be null.
template <OptimizerType type>
inline void update_elements(const StepScalars scalars, int64_t n, const float* __restrict g,
                            float* __restrict w, float* __restrict state0,
                            float* __restrict state1) {
  constexpr int kStates = state_count(type);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float none = 0;
    update_element<type>(scalars, g[i], w[i], kStates > 0 ? state0[i] : none,
                         kStates > 1 ? state1[i] : none);
  }
}

// The same with g = 0.
template <OptimizerType type>
inline void update_elements_without_gradient(const StepScalars scalars, int64_t n,
                                             float* __restrict w, float* __restrict state0,
                                             float* __restrict state1) {
  constexpr int kStates = state_count(type);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float none = 0;
    update_element<type>(scalars, 0.f, w[i], kStates > 0 ? state0[i] : none,
                         kStates > 1 ? state1[i] : none);
  }
}

// The mean of g^2 over [0, n), n > 0. What is added to what depends on n alone.
inline float mean_square(int64_t n, const float* __restrict g) {
  constexpr int64_t kSums = 16;
  float sums[kSums] = {};
  const int64_t whole = n / kSums * kSums;
  for (int64_t i = 0; i < whole; i += kSums)
#pragma omp simd
    for (int64_t k = 0; k < kSums; ++k) sums[k] += g[i + k] * g[i + k];
  for (int64_t i = whole; i < n; ++i) sums[i - whole] += g[i] * g[i];
  for (int64_t half = kSums / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0] / static_cast<float>(n);
}

// A table's row of n elements, and its states, of state_width(type, index, n).
template <OptimizerType type>
inline void update_row(const StepScalars scalars, int64_t n, const float* __restrict g,
                       float* __restrict w, float* __restrict state0, float* __restrict state1) {
  if constexpr (is_row_wise(type)) {
    constexpr bool kFirst = is_per_weight(type, 0), kSecond = is_per_weight(type, 1);
    float* const of_row = states_of(type).list[0].per_row ? state0 : state1;
    update_row_state<type>(scalars, mean_square(n, g), true, *of_row);
    const float moved = *of_row;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      float state = moved;
      update_weight<type>(scalars, g[i], w[i], kFirst ? state0[i] : state,
                          kSecond ? state1[i] : state);
    }
  } else {
    update_elements<type>(scalars, n, g, w, state0, state1);
  }
}

}  // namespace hlite::optimizer
