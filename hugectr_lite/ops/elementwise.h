// Several tensors of one shape made one, element by element: Add, Sub, ElementwiseMultiply, sums of
// gradients. The gradient of a sum is a copy, that of a product the product of all but one input
// and the gradient above: neither needs an op of its own.
#pragma once

#include <span>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

enum class Elementwise { kSum, kDifference, kProduct };

HLITE_HD inline float combine(Elementwise how, float a, float b) {
  return how == Elementwise::kSum ? a + b : how == Elementwise::kDifference ? a - b : a * b;
}

// out[i] = inputs[0][i] + inputs[1][i] + ..., or - or *, from the left in float; at least one
// input, all of out's size. T: float, bf16, or on a GPU fp16 (rounded to T at the end, and on a GPU
// after every 63 further inputs where there are more than 64). out may be the very view of
// inputs[0], and overlaps no other input.
template <typename T = float>
void elementwise(const Exec& exec, Elementwise how, std::span<const VectorOf<const T>> inputs,
                 VectorOf<T> out);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::elementwise<T>)> elementwise{"elementwise"};
}  // namespace kernels

}  // namespace hlite::ops
