// WeightMultiply: each column of x multiplies a weight vector of its own, so that a numeric feature
// gets an embedding vector as a category does.
//
//   y[b, s V + v] = x[b,s] w[s,v],  dx[b,s] = sum_v dy[b, s V + v] w[s,v],
//   dw[s,v] = sum_b dy[b, s V + v] x[b,s]
//
// x [B,S], w [S,V], y [B, S V]. T is float, on a GPU also bf16 or fp16; sums and dw are float.
// Outputs are overwritten and must not overlap inputs. Throws Error if shapes do not match.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

template <typename T = float>
void weight_multiply_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                             MatrixOf<T> y);

template <typename T = float>
void weight_multiply_backward_data(const Exec& exec, MatrixOf<const T> dy, MatrixOf<const T> w,
                                   MatrixOf<T> dx);

// REQUIRES exec.matmul on a GPU.
template <typename T = float>
void weight_multiply_backward_weights(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                                      Matrix<float> dw);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::weight_multiply_forward<T>)> weight_multiply_forward{
    "weight_multiply_forward"};
template <typename T>
inline const KernelOf<decltype(ops::weight_multiply_backward_data<T>)>
    weight_multiply_backward_data{"weight_multiply_backward_data"};
// REQUIRES the Exec's MatmulContext.
template <typename T>
inline const KernelOf<decltype(ops::weight_multiply_backward_weights<T>)>
    weight_multiply_backward_weights{"weight_multiply_backward_weights"};
}  // namespace kernels

}  // namespace hlite::ops
