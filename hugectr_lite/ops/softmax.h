// Softmax along the rows of a matrix, and its gradient:
//
//   y[r,j] = exp(z[r,j]) / sum_k exp(z[r,k]),   z = factor x, less 10000 where a mask is 0
//   dx[r,j] = factor y[r,j] (dy[r,j] - sum_k dy[r,k] y[r,k])
//
// The row's largest z is subtracted first: nothing overflows. Where the mask is 0 in a whole row, y
// is 0, and dx with it.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// x, mask, y [R,n]; mask.data() null: there is none. T: float, or bf16, or on a GPU fp16, computed
// in float, in an order that follows from n alone. y may be x.
template <typename T = float>
void softmax_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> mask, float factor,
                     MatrixOf<T> y);

// dx may be dy.
template <typename T = float>
void softmax_backward(const Exec& exec, MatrixOf<const T> y, MatrixOf<const T> dy, float factor,
                      MatrixOf<T> dx);

inline constexpr float kSoftmaxMasked = -10000;

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::softmax_forward<T>)> softmax_forward{"softmax_forward"};
template <typename T>
inline const KernelOf<decltype(ops::softmax_backward<T>)> softmax_backward{"softmax_backward"};
}  // namespace kernels

}  // namespace hlite::ops
