// Inverted dropout: y_i = x_i / (1 - rate) with probability 1 - rate, else 0.
//
// The mask is never stored. Whether element i is kept follows from a counter-based random number,
// so backward recomputes it, and every backend and rank agrees:
//
//   u_i = uniform number of (seed, stream, step * 2^40 + first_element + i)
//   kept when u_i >= rate
//
// No two steps share a number as long as a tensor has fewer than 2^40 elements.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

struct DropoutMask {
  float rate = 0;  // 0 <= rate < 1
  uint64_t seed = 0, stream = 0;
  const int64_t* step = nullptr;  // memory of the op's device, read when it runs
  int64_t first_element = 0;      // of this rank's samples in the whole batch's tensor
};

// Place of element 0 in the stream.
HLITE_HD inline uint64_t dropout_first_index(const DropoutMask& mask) {
  return (static_cast<uint64_t>(*mask.step) << 40) + static_cast<uint64_t>(mask.first_element);
}

// One element under its uniform number u in [0, 1); scale = 1 / (1 - rate).
HLITE_HD inline float dropout_element(float x, float u, float rate, float scale) {
  return u >= rate ? x * scale : 0.0f;
}

// T: float, bf16, or on a GPU fp16. x and y [N]; y may be the very view x. A dropped NaN gives 0.
// Backward is the same map, of the gradient.
template <typename T = float>
void dropout(const Exec& exec, VectorOf<const T> x, VectorOf<T> y, const DropoutMask& mask);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::dropout<T>)> dropout{"dropout"};
}  // namespace kernels

}  // namespace hlite::ops
