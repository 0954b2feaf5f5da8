// A penalty on the parameters, added to the loss and to their gradients:
//
//   L1   loss += lambda sum |w|           dw += lambda sign(w)      (sign(0) = 0)
//   L2   loss += lambda/2 sum w^2         dw += lambda w
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

enum class Penalty { kL1, kL2 };

struct PenaltyTerm {
  double loss;
  float gradient;
};

// Returns the penalty of one parameter, before the factor lambda.
HLITE_HD inline PenaltyTerm penalty_term(Penalty penalty, float w) {
  if (penalty == Penalty::kL1)
    return {static_cast<double>(w < 0 ? -w : w), static_cast<float>((w > 0) - (w < 0))};
  return {0.5 * static_cast<double>(w) * static_cast<double>(w), w};
}

struct RegularizerOptions {
  Penalty penalty = Penalty::kL2;
  double lambda = 0;
  // The factor by which the gradients are multiplied already (loss scaling); in memory of the op's
  // device. Null: 1.
  const float* scale = nullptr;
  // At least kBlockSums numbers (ops/block_sums.h), whatever they hold; the CPU takes fewer too, on
  // one thread.
  Vector<double> workspace = {};
};

// w and dw [N] do not overlap. Summed in double in a fixed order. T: float, bf16 or fp16.
template <typename T>
void add_penalty(const Exec& exec, VectorOf<const T> w, Vector<float> dw, float* loss,
                 const RegularizerOptions& options);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::add_penalty<T>)> add_penalty{"add_penalty"};
}  // namespace kernels

}  // namespace hlite::ops
