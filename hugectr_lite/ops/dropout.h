// Inverted dropout: y_i = x_i / (1 - rate) with probability 1 - rate, else 0.
//
// The mask is never stored. Whether element i is kept follows from the counter-based random number
// (seed, stream, first_index + i), so backward recomputes it, and every backend and rank agrees.
// A caller gives each iteration its own seed or stream.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// One element under its uniform number u in [0, 1); scale = 1 / (1 - rate).
HLITE_HD inline float dropout_element(float x, float u, float rate, float scale) {
  return u >= rate ? x * scale : 0.0f;
}

// x and y [N], 0 <= rate < 1; y may be the very view x. A dropped NaN gives 0.
void dropout_forward(const Exec& exec, Vector<const float> x, Vector<float> y, float rate,
                     uint64_t seed, uint64_t stream, uint64_t first_index);

// dx = dy * the same mask; dx may be the very view dy.
void dropout_backward(const Exec& exec, Vector<const float> dy, Vector<float> dx, float rate,
                      uint64_t seed, uint64_t stream, uint64_t first_index);

}  // namespace hlite::ops
