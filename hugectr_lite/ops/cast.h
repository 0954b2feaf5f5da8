// Between float and the type of the activations: the working copies of the weights before the first
// step, dense features on their way into the network, gradients on their way out.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// out[i] = the T nearest to x[i]. T: float (a copy), bf16, or on a GPU fp16; x and out [N] do not
// overlap.
template <typename T>
void cast_from_float(const Exec& exec, Vector<const float> x, VectorOf<T> out);

// out[i] = x[i], exactly. Otherwise the same.
template <typename T>
void cast_to_float(const Exec& exec, VectorOf<const T> x, Vector<float> out);

// out[b, i] = the T nearest to x[b, i] in the columns of x, and 0 in those beyond: x [B, W], out
// [B, V] with V >= W. Otherwise as cast_from_float().
template <typename T>
void cast_padded(const Exec& exec, Matrix<const float> x, MatrixOf<T> out);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::cast_from_float<T>)> cast_from_float{"cast_from_float"};
template <typename T>
inline const KernelOf<decltype(ops::cast_to_float<T>)> cast_to_float{"cast_to_float"};
// Writes more columns to `out` than `x` has.
template <typename T>
inline const KernelOf<decltype(ops::cast_padded<T>)> cast_padded{"cast_padded"};
}  // namespace kernels

}  // namespace hlite::ops
