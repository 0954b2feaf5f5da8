// Layer normalisation of the rows of a matrix [R,n] (Ba et al., "Layer Normalization", 2016):
//
//   y = gamma x_hat + beta,  x_hat = (x - mean) rate,  rate = 1 / sqrt(variance + epsilon)
//
// with mean and variance of the row, over n; backward, with g = gamma dy,
//
//   dx = rate (g - mean(g) - x_hat mean(g x_hat)),  dgamma = sum_r dy x_hat,  dbeta = sum_r dy
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/column_terms.h"

namespace hlite::ops {

// x, y [R,n]; gamma, beta [n], or [g n]: of row r, the n from r mod g on; statistics [R,2],
// overwritten: mean and rate of each row. T: float, or bf16, or on a GPU fp16, computed in float, in
// an order that follows from n alone. y may be x where there is no way back.
template <typename T = float>
void layer_norm_forward(const Exec& exec, MatrixOf<const T> x, Vector<const float> gamma,
                        Vector<const float> beta, float epsilon, Matrix<float> statistics,
                        MatrixOf<T> y);

// dx may be dy.
template <typename T = float>
void layer_norm_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         Matrix<const float> statistics, Vector<const float> gamma, MatrixOf<T> dx);

// sums [2,n] <- of dy and dy x_hat down the columns: dbeta and dgamma in double
// (batch_norm_parameter_gradients()). workspace: terms_workspace(n) doubles. For g n columns x and
// dy are given as [R/g, g n].
template <typename T = float>
void layer_norm_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                              Matrix<const float> statistics, Vector<double> workspace,
                              Matrix<double> sums);

namespace layer_norm {
template <typename T>
struct GradientTerms {
  static constexpr const char* kName = "layer_norm_gradient_sums";
  Matrix<const T> x, dy;
  Matrix<const float> statistics;
  int64_t groups = 1;
  [[nodiscard]] HLITE_HD Terms operator()(int64_t row, int64_t j) const {
    const int64_t group = groups == 1 ? 0 : j / (x.dim(1) / groups);
    const float* const of = statistics.row(row * groups + group);
    const double g = static_cast<double>(to_float(dy.row(row)[j]));
    return {g, g * static_cast<double>((to_float(x.row(row)[j]) - of[0]) * of[1])};
  }
};
}  // namespace layer_norm

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::layer_norm_forward<T>)> layer_norm_forward{
    "layer_norm_forward"};
template <typename T>
inline const KernelOf<decltype(ops::layer_norm_backward<T>)> layer_norm_backward{
    "layer_norm_backward"};
}  // namespace kernels

}  // namespace hlite::ops
