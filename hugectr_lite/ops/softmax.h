// Softmax along the rows of a matrix, and its gradient:
//
//   y[r,j] = exp(z[r,j]) / sum_k exp(z[r,k]),   z = factor x, less 10000 where a mask is 0
//   dx[r,j] = factor y[r,j] (dy[r,j] - sum_k dy[r,k] y[r,k])
//
// The row's largest z is subtracted first: nothing overflows.
#pragma once

#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// x, mask, y [R,n]; mask.data() null: there is none. T: float, or bf16, or on a GPU fp16, computed
// in float, in an order that follows from n alone. y may be x.
template <typename T = float>
void softmax_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                     Matrix<const std::type_identity_t<T>> mask, float factor,
                     Matrix<std::type_identity_t<T>> y);

// dx may be dy.
template <typename T = float>
void softmax_backward(const Exec& exec, Matrix<const std::type_identity_t<T>> y,
                      Matrix<const std::type_identity_t<T>> dy, float factor,
                      Matrix<std::type_identity_t<T>> dx);

inline constexpr float kSoftmaxMasked = -10000;

namespace kernels {
template <typename T>
inline const Kernel<void(Matrix<const T> /*x*/, Matrix<const T> /*mask*/, float /*factor*/,
                         Matrix<T> /*y*/)>
    softmax_forward{"softmax_forward"};
template <typename T>
inline const Kernel<void(Matrix<const T> /*y*/, Matrix<const T> /*dy*/, float /*factor*/,
                         Matrix<T> /*dx*/)>
    softmax_backward{"softmax_backward"};
}  // namespace kernels

}  // namespace hlite::ops
