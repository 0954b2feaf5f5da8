// Dice, the activation of Deep Interest Network (Zhou et al., KDD 2018), on a matrix [rows, n]:
//
//   y = p x + (1 - p) alpha x,  p = 1 / (1 + exp(-x_hat)),
//   x_hat = (x - mean) / sqrt(variance + epsilon)
//
// with a column's mean and variance over the batch, as batch_norm.h makes them. With q = x (1 -
// alpha) p (1 - p) dy, which reaches mean and variance too,
//
//   dx = dy (alpha + (1 - alpha) p) + (q - sum q / N - x_hat sum q x_hat / N) / sqrt(...)
//
// and dalpha = sum (1 - p) x dy of a column's own alpha.
#pragma once

#include "hugectr_lite/ops/batch_norm.h"

namespace hlite::ops {

// One for all columns, or each column's own.
struct DiceAlpha {
  DiceAlpha(float of_all) : all(of_all) {}                   // NOLINT: implicit on purpose
  DiceAlpha(Vector<const float> of_each) : each(of_each) {}  // NOLINT
  [[nodiscard]] HLITE_HD float at(int64_t j) const { return each.data() ? each.data()[j] : all; }
  float all = 0;
  Vector<const float> each = {};
};

// T: float, or bf16, or on a GPU fp16. y may be x.
template <typename T = float>
void dice_forward(const Exec& exec, MatrixOf<const T> x, const ColumnStatistics& statistics,
                  const DiceAlpha& alpha, MatrixOf<T> y);
// sums [2,n] <- of q and q x_hat, for batch_norm_gradient_means().
template <typename T = float>
void dice_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                        const ColumnStatistics& statistics, const DiceAlpha& alpha,
                        Vector<double> workspace, Matrix<double> sums);
// dalpha [n] of this rank's rows. `sums` [2,n] is overwritten.
template <typename T = float>
void dice_alpha_gradient(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         const ColumnStatistics& statistics, Vector<double> workspace,
                         Matrix<double> sums, Vector<float> dalpha);
// dx may be dy.
template <typename T = float>
void dice_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                   const ColumnStatistics& statistics, const DiceAlpha& alpha, MatrixOf<T> dx);

namespace dice {

HLITE_HD inline float share(float x_hat) { return 1 / (1 + std::exp(-x_hat)); }
HLITE_HD inline float through_share(float x, float p, float alpha, float dy) {
  return x * (1 - alpha) * p * (1 - p) * dy;
}

template <typename T>
struct DiceForward {
  static constexpr const char* kName = "dice_forward";
  Matrix<const T> x;
  ColumnStatistics statistics;
  DiceAlpha alpha;
  Matrix<T> y;
  HLITE_HD void operator()(int64_t i, int64_t j) const {
    const float value = to_float(x.data()[i]), a = alpha.at(j);
    const float p = share(batch_norm::normalized(statistics, j, value));
    y.data()[i] = from_float<T>(value * (a + (1 - a) * p));
  }
};
template <typename T>
struct DiceGradientTerms {
  static constexpr const char* kName = "dice_gradient_sums";
  Matrix<const T> x, dy;
  ColumnStatistics statistics;
  DiceAlpha alpha;
  [[nodiscard]] HLITE_HD Terms operator()(int64_t row, int64_t j) const {
    const float value = to_float(x.row(row)[j]);
    const float x_hat = batch_norm::normalized(statistics, j, value);
    const auto q = static_cast<double>(
        through_share(value, share(x_hat), alpha.at(j), to_float(dy.row(row)[j])));
    return {q, q * static_cast<double>(x_hat)};
  }
};
template <typename T>
struct DiceAlphaTerms {
  static constexpr const char* kName = "dice_alpha_sums";
  Matrix<const T> x, dy;
  ColumnStatistics statistics;
  [[nodiscard]] HLITE_HD Terms operator()(int64_t row, int64_t j) const {
    const float value = to_float(x.row(row)[j]);
    const float p = share(batch_norm::normalized(statistics, j, value));
    return {static_cast<double>((1 - p) * value * to_float(dy.row(row)[j])), 0};
  }
};
struct DiceAlphaGradient {
  static constexpr const char* kName = "dice_alpha_gradient";
  Matrix<const double> sums;
  Vector<float> dalpha;
  HLITE_HD void operator()(int64_t j) const {
    dalpha.data()[j] = static_cast<float>(sums.data()[j]);
  }
};
template <typename T>
struct DiceBackward {
  static constexpr const char* kName = "dice_backward";
  Matrix<const T> x, dy;
  ColumnStatistics statistics;
  DiceAlpha alpha;
  Matrix<T> dx;
  HLITE_HD void operator()(int64_t i, int64_t j) const {
    const ColumnStatistics& s = statistics;
    const float value = to_float(x.data()[i]), above = to_float(dy.data()[i]);
    const float x_hat = batch_norm::normalized(s, j, value), p = share(x_hat), a = alpha.at(j);
    const float q =
        through_share(value, p, a, above) - s.mean_dy.data()[j] - x_hat * s.mean_dy_x.data()[j];
    dx.data()[i] = from_float<T>(above * (a + (1 - a) * p) + s.rate.data()[j] * q);
  }
};

}  // namespace dice

}  // namespace hlite::ops
