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

// The factors that gradients are multiplied by: those of a scaled loss, and those that are unscaled
// already.
struct ClipFactors {
  float scaled = 1, unscaled = 1;
};

// Which sums of squares are of gradients of a scaled loss, and what undoes its scale.
struct ScaledSums {
  int64_t first = 0, stride = 1, count = 0;
  const float* inverse = nullptr;  // null: 1

  [[nodiscard]] HLITE_HD bool hold(int64_t i) const {
    const int64_t at = i - first;
    return at >= 0 && at % stride == 0 && at / stride < count;
  }
};

// Returns the factors for the norm n of all gradients: min(1, most / (n + 1e-6)). `squares`: sums
// of squares.
HLITE_HD inline ClipFactors clip_factors(Vector<const double> squares, double most,
                                         const ScaledSums& scaled) {
  const double unscale = scaled.inverse ? static_cast<double>(*scaled.inverse) : 1.0;
  double total = 0;
  for (int64_t i = 0; i < squares.size(); ++i) {
    const double sum = squares.data()[i];
    total += scaled.hold(i) ? sum * unscale * unscale : sum;
  }
  const double factor = most / (sqrt(total) + 1e-6), clip = factor < 1 ? factor : 1;
  return {static_cast<float>(unscale * clip), static_cast<float>(clip)};
}

// *factors = clip_factors(...), where all of it lies in memory of the op's device.
void clip_gradients(const Exec& exec, Vector<const double> squares, double most,
                    const ScaledSums& scaled, ClipFactors* factors);

namespace kernels {
inline const KernelOf<decltype(ops::square_sum)> square_sum{"square_sum"};
inline const KernelOf<decltype(ops::clip_gradients)> clip_gradients{"clip_gradients"};
}  // namespace kernels

}  // namespace hlite::ops
