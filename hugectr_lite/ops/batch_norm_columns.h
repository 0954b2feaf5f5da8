// Batch normalization of a column's numbers, on the CPU and on a GPU: for batch_norm.cpp and
// batch_norm.cu.
#pragma once

#include "hugectr_lite/ops/batch_norm.h"

namespace hlite::ops::batch_norm {

// Element j of row `which`, over all ranks in their order.
HLITE_HD inline double sum_of_ranks(const View<const double, 3>& sums, int which, int64_t j) {
  double sum = 0;
  const int64_t n = sums.dim(2);
  for (int64_t r = 0; r < sums.dim(0); ++r) sum += sums.data()[(r * 2 + which) * n + j];
  return sum;
}

HLITE_HD inline void set_statistics(const ColumnStatistics& to, int64_t j, double mean,
                                    double variance, double epsilon) {
  to.mean.data()[j] = static_cast<float>(mean);
  to.variance.data()[j] = static_cast<float>(variance);
  to.rate.data()[j] = static_cast<float>(1 / std::sqrt(variance + epsilon));
}

// E[x^2] - E[x]^2 in double: the squares of floats are exact there, and what cancels is above the
// rounding of the floats themselves.
HLITE_HD inline void FromSums::operator()(int64_t j) const {
  const double mean = rows > 0 ? sum_of_ranks(sums, 0, j) / rows : 0;
  const double variance = rows > 0 ? sum_of_ranks(sums, 1, j) / rows - mean * mean : 0;
  // NaN stays NaN.
  set_statistics(to, j, mean, variance < 0 ? 0 : variance, epsilon);
}

HLITE_HD inline void FromRunning::operator()(int64_t j) const {
  set_statistics(to, j, static_cast<double>(running.mean.data()[j]),
                 static_cast<double>(running.variance.data()[j]), epsilon);
}

HLITE_HD inline void GradientMeans::operator()(int64_t j) const {
  to.mean_dy.data()[j] = static_cast<float>(sum_of_ranks(sums, 0, j) / rows);
  to.mean_dy_x.data()[j] = static_cast<float>(sum_of_ranks(sums, 1, j) / rows);
}

HLITE_HD inline void ParameterGradients::operator()(int64_t j) const {
  dbeta.data()[j] = static_cast<float>(sums.row(0)[j]);
  dgamma.data()[j] = static_cast<float>(sums.row(1)[j]);
}

HLITE_HD inline void Running::operator()(int64_t j) const {
  if (update.skip && *update.skip != 0) return;
  const float mean = statistics.mean.data()[j], variance = statistics.variance.data()[j];
  if (!(std::abs(mean) <= 3.4e38f && variance <= 3.4e38f)) return;
  const auto move = [&](float& to, float value) { to += update.factor * (value - to); };
  move(running.mean.data()[j], mean);
  if (update.rows > 1) {
    const auto n = static_cast<double>(update.rows);
    move(running.variance.data()[j],
         static_cast<float>(static_cast<double>(variance) * (n / (n - 1))));
  }
}

}  // namespace hlite::ops::batch_norm
