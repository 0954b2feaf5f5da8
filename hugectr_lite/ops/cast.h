// Between float and the type of the activations: the working copies of the weights before the first
// step, dense features on their way into the network, gradients on their way out. And from the
// numbers of the last layer to scores in other units.
#pragma once

#include <cmath>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
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

// offset + scale x in float, rounded once.
struct Affine {
  float offset = 0, scale = 1;
  HLITE_HD float operator()(float x) const { return std::fma(scale, x, offset); }
  bool operator==(const Affine&) const = default;
};

// out[i] = f(x[i]). Otherwise as cast_to_float().
template <typename T>
void affine_to_float(const Exec& exec, const Affine& f, VectorOf<const T> x, Vector<float> out);

// out[b, i] = the T nearest to x[b, i] in the columns of x, and 0 in those beyond: x [B, W], out
// [B, V] with V >= W. Otherwise as cast_from_float().
template <typename T>
void cast_padded(const Exec& exec, Matrix<const float> x, MatrixOf<T> out);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::cast_from_float<T>)> cast_from_float{"cast_from_float"};
template <typename T>
inline const KernelOf<decltype(ops::cast_to_float<T>)> cast_to_float{"cast_to_float"};
template <typename T>
inline const KernelOf<decltype(ops::affine_to_float<T>)> affine_to_float{"affine_to_float"};
// Writes more columns to `out` than `x` has.
template <typename T>
inline const KernelOf<decltype(ops::cast_padded<T>)> cast_padded{"cast_padded"};
}  // namespace kernels

}  // namespace hlite::ops
