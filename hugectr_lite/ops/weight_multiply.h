// WeightMultiply: a vector of weights for each column, scaled by the column's value: numeric
// features get vectors as categories have.
//
//   y[b, s V + v] = x[b,s] w[s,v],  dx[b,s] = sum_v dy[b, s V + v] w[s,v],
//   dw[s,v] = sum_b dy[b, s V + v] x[b,s]
//
// x [B,S], w [S,V], y [B, S V]. T: float, or on a GPU bf16 or fp16 too; sums and dw are float.
// Results are overwritten and overlap no input.
#pragma once

#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

template <typename T = float>
void weight_multiply_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                             Matrix<const std::type_identity_t<T>> w,
                             Matrix<std::type_identity_t<T>> y);

template <typename T = float>
void weight_multiply_backward_data(const Exec& exec, Matrix<const std::type_identity_t<T>> dy,
                                   Matrix<const std::type_identity_t<T>> w,
                                   Matrix<std::type_identity_t<T>> dx);

// On a GPU with exec.matmul.
template <typename T = float>
void weight_multiply_backward_weights(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                                      Matrix<const std::type_identity_t<T>> dy, Matrix<float> dw);

namespace kernels {
template <typename T>
inline const Kernel<void(Matrix<const T> /*x*/, Matrix<const T> /*w*/, Matrix<T> /*y*/)>
    weight_multiply_forward{"weight_multiply_forward"};
template <typename T>
inline const Kernel<void(Matrix<const T> /*dy*/, Matrix<const T> /*w*/, Matrix<T> /*dx*/)>
    weight_multiply_backward_data{"weight_multiply_backward_data"};
// With the Exec's MatmulContext.
template <typename T>
inline const Kernel<void(Matrix<const T> /*x*/, Matrix<const T> /*dy*/, Matrix<float> /*dw*/)>
    weight_multiply_backward_weights{"weight_multiply_backward_weights"};
}  // namespace kernels

}  // namespace hlite::ops
