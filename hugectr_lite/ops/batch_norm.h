// Batch normalisation of a matrix [rows, n], column by column (Ioffe and Szegedy, "Batch
// Normalization", ICML 2015):
//
//   y = gamma x_hat + beta,  x_hat = (x - mean) / sqrt(variance + epsilon)
//
// with mean and variance over the rows, of which other ranks may have more: each makes its sums,
// and all go on with the sums of all. With N rows on all ranks,
//
//   dbeta = sum dy,  dgamma = sum dy x_hat,
//   dx = gamma / sqrt(variance + epsilon) (dy - dbeta / N - x_hat dgamma / N)
//
// Sums are double, over parts of the rows that follow from their number alone, in a fixed order.
#pragma once

#include <cmath>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/column_terms.h"

namespace hlite::ops {

// Statistics of each column, in [kRows, n] floats.
struct ColumnStatistics {
  static constexpr int64_t kRows = 5;
  ColumnStatistics() = default;
  ColumnStatistics(float* data, int64_t n)
      : mean(data, n),
        variance(data + n, n),
        rate(data + 2 * n, n),
        mean_dy(data + 3 * n, n),
        mean_dy_x(data + 4 * n, n) {}

  Vector<float> mean, variance;      // over N
  Vector<float> rate;                // 1 / sqrt(variance + epsilon)
  Vector<float> mean_dy, mean_dy_x;  // of dy and dy x_hat; set on the way back
};

// Statistics that evaluation goes by, [n] each.
struct RunningStatistics {
  Vector<float> mean, variance;
};

// sums [2,n] <- of x and x^2, on the way back of dy and dy x_hat. workspace: terms_workspace(n)
// doubles. All overwritten. T: float, or bf16, or on a GPU fp16.
template <typename T = float>
void batch_norm_sums(const Exec& exec, MatrixOf<const T> x, Vector<double> workspace,
                     Matrix<double> sums);
template <typename T = float>
void batch_norm_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                              const ColumnStatistics& statistics, Vector<double> workspace,
                              Matrix<double> sums);

// mean, variance and rate <- the sums of x of all ranks [ranks,2,n], over `rows` rows in all.
void batch_norm_statistics(const Exec& exec, View<const double, 3> sums, int64_t rows,
                           double epsilon, const ColumnStatistics& to);
// The same <- running values.
void running_statistics(const Exec& exec, const RunningStatistics& running, double epsilon,
                        const ColumnStatistics& to);
// mean_dy and mean_dy_x <- the sums of gradients of all ranks.
void batch_norm_gradient_means(const Exec& exec, View<const double, 3> sums, int64_t rows,
                               const ColumnStatistics& to);
// dgamma, dbeta [n] <- one rank's sums of gradients.
void batch_norm_parameter_gradients(const Exec& exec, Matrix<const double> sums,
                                    Vector<float> dgamma, Vector<float> dbeta);

// running <- (1 - factor) running + factor (mean, variance N / (N - 1)). Of a column whose
// statistics are not finite nothing changes, of a batch of one row not the variance; and nothing at
// all where *skip is not 0 (null: never).
struct RunningUpdate {
  int64_t rows = 0;
  float factor = 1;
  const int32_t* skip = nullptr;  // on the device
};
void update_running(const Exec& exec, const ColumnStatistics& statistics,
                    const RunningUpdate& update, const RunningStatistics& running);

// y may be x.
template <typename T = float>
void batch_norm_forward(const Exec& exec, MatrixOf<const T> x, const ColumnStatistics& statistics,
                        Vector<const float> gamma, Vector<const float> beta, MatrixOf<T> y);
// dx may be dy.
template <typename T = float>
void batch_norm_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         const ColumnStatistics& statistics, Vector<const float> gamma,
                         MatrixOf<T> dx);

// Functions of an element, or a column, on the CPU and on a GPU.
namespace batch_norm {

HLITE_HD inline float normalized(const ColumnStatistics& s, int64_t j, float x) {
  return (x - s.mean.data()[j]) * s.rate.data()[j];
}

template <typename T>
struct ValueTerms {
  using Type = T;
  static constexpr const char* kName = "batch_norm_sums";
  Matrix<const T> x;
  [[nodiscard]] HLITE_HD Terms operator()(int64_t row, int64_t j) const {
    const double value = static_cast<double>(to_float(x.row(row)[j]));
    return {value, value * value};
  }
};
template <typename T>
struct BatchNormGradientTerms {
  using Type = T;
  static constexpr const char* kName = "batch_norm_gradient_sums";
  Matrix<const T> x, dy;
  ColumnStatistics statistics;
  [[nodiscard]] HLITE_HD Terms operator()(int64_t row, int64_t j) const {
    const double g = static_cast<double>(to_float(dy.row(row)[j]));
    return {g, g * static_cast<double>(normalized(statistics, j, to_float(x.row(row)[j])))};
  }
};

template <typename T>
struct BatchNormForward {
  using Type = T;
  static constexpr const char* kName = "batch_norm_forward";
  Matrix<const T> x;
  ColumnStatistics statistics;
  Vector<const float> gamma, beta;
  Matrix<T> y;
  HLITE_HD void operator()(int64_t i, int64_t j) const {
    const float x_hat = normalized(statistics, j, to_float(x.data()[i]));
    y.data()[i] = from_float<T>(gamma.data()[j] * x_hat + beta.data()[j]);
  }
};
template <typename T>
struct BatchNormBackward {
  using Type = T;
  static constexpr const char* kName = "batch_norm_backward";
  Matrix<const T> x, dy;
  ColumnStatistics statistics;
  Vector<const float> gamma;
  Matrix<T> dx;
  HLITE_HD void operator()(int64_t i, int64_t j) const {
    const ColumnStatistics& s = statistics;
    const float x_hat = normalized(s, j, to_float(x.data()[i]));
    const float g = to_float(dy.data()[i]) - s.mean_dy.data()[j] - x_hat * s.mean_dy_x.data()[j];
    dx.data()[i] = from_float<T>(gamma.data()[j] * s.rate.data()[j] * g);
  }
};

struct FromSums {
  static constexpr const char* kName = "batch_norm_statistics";
  View<const double, 3> sums;
  double rows, epsilon;
  ColumnStatistics to;
  HLITE_HD void operator()(int64_t j) const;
};
struct FromRunning {
  static constexpr const char* kName = "running_statistics";
  RunningStatistics running;
  double epsilon;
  ColumnStatistics to;
  HLITE_HD void operator()(int64_t j) const;
};
struct GradientMeans {
  static constexpr const char* kName = "batch_norm_gradient_means";
  View<const double, 3> sums;
  double rows;
  ColumnStatistics to;
  HLITE_HD void operator()(int64_t j) const;
};
struct ParameterGradients {
  static constexpr const char* kName = "batch_norm_parameter_gradients";
  Matrix<const double> sums;
  Vector<float> dgamma, dbeta;
  HLITE_HD void operator()(int64_t j) const;
};
struct Running {
  static constexpr const char* kName = "update_running";
  ColumnStatistics statistics;
  RunningUpdate update;
  RunningStatistics running;
  HLITE_HD void operator()(int64_t j) const;
};

}  // namespace batch_norm

}  // namespace hlite::ops
