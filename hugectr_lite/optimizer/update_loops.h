// The update rules over neighbouring elements on the host, vectorised.
//
// Files that include this are compiled with -fopenmp-simd (the pragmas: without them GCC unrolls
// loops of a known length completely before it thinks of vectors) and -fno-math-errno (nobody reads
// errno, but setting it would keep square roots scalar).
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

}  // namespace hlite::optimizer
