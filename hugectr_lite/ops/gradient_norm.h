// The Euclidean norm of many gradients together, and what they are multiplied by so that it is no
// longer than it may be (Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural
// networks", ICML 2013; the form of PyTorch's clip_grad_norm_).
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// *sum = the sum of x[i]^2, in double in a fixed order. `workspace`: at least kBlockSums numbers
// (ops/block_sums.h), whatever they hold. Numbers lie in memory of the op's device.
void square_sum(const Exec& exec, Vector<const float> x, Vector<double> workspace, double* sum);

// What gradients are multiplied by: those of a scaled loss, and those that are unscaled already.
struct ClipFactors {
  float scaled = 1, unscaled = 1;
};

// With the norm n of all gradients: min(1, most / (n + 1e-6)). `squares`: sums of squares,
// squares[0] of gradients of a loss that was scaled by 1 / *inverse (null: 1).
HLITE_HD inline ClipFactors clip_factors(Vector<const double> squares, double most,
                                         const float* inverse) {
  const double unscale = inverse ? static_cast<double>(*inverse) : 1.0;
  double total = squares.data()[0] * unscale * unscale;
  for (int64_t i = 1; i < squares.size(); ++i) total += squares.data()[i];
  const double factor = most / (sqrt(total) + 1e-6), clip = factor < 1 ? factor : 1;
  return {static_cast<float>(unscale * clip), static_cast<float>(clip)};
}

// *factors = clip_factors(...), where all of it lies in memory of the op's device.
void clip_gradients(const Exec& exec, Vector<const double> squares, double most,
                    const float* inverse, ClipFactors* factors);

namespace kernels {
inline const Kernel<void(Vector<const float> /*x*/, Vector<double> /*workspace*/, double* /*sum*/)>
    square_sum{"square_sum"};
inline const Kernel<void(Vector<const double> /*squares*/, double /*most*/,
                         const float* /*inverse*/, ClipFactors*)>
    clip_gradients{"clip_gradients"};
}  // namespace kernels

}  // namespace hlite::ops
