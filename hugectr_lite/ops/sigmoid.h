// y = 1 / (1 + e^-x) and its gradient dx = dy y (1 - y).
#pragma once

#include <cmath>

#include "hugectr_lite/ops/activation.h"

namespace hlite::ops {

struct Sigmoid {
  static constexpr const char *kForward = "sigmoid_forward", *kBackward = "sigmoid_backward";
  static constexpr int64_t kGrain = 1 << 12;
  // e^-x may be infinite: y is then 0. NaN stays NaN.
  [[nodiscard]] HLITE_HD float value(float x) const { return 1 / (1 + std::exp(-x)); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return dy * y * (1 - y); }
  void check() const {}
};

}  // namespace hlite::ops
