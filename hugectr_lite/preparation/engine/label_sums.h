// Mean and deviation of the labels of rows that come one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "data_reader/manifest.h"

namespace hlite::prep {

struct WeightedLabel {
  float label = 0, weight = 1;
};

// The bits depend on the rows and their order only. Deviations are from the first label, whose
// size then costs no digits of them.
class LabelSums {
 public:
  void add(const WeightedLabel& row) {
    if (row.weight == 0) return;
    if (weights_ == 0) first_ = row.label;
    const auto weight = static_cast<double>(row.weight);
    const double from_first = static_cast<double>(row.label) - static_cast<double>(first_);
    weights_ += weight;
    sum_ += weight * from_first;
    squares_ += weight * from_first * from_first;
  }
  // Nothing without a row whose weight is above 0.
  [[nodiscard]] std::optional<data::LabelMoments> moments() const {
    if (weights_ == 0) return std::nullopt;
    const double mean = sum_ / weights_;
    return data::LabelMoments{
        .mean = static_cast<double>(first_) + mean,
        .deviation = std::sqrt(std::max(0.0, squares_ / weights_ - mean * mean))};
  }

 private:
  float first_ = 0;
  double weights_ = 0, sum_ = 0, squares_ = 0;
};

}  // namespace hlite::prep
