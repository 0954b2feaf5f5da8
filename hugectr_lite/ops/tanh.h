// y = tanh(x) and its gradient dx = dy (1 - y^2).
#pragma once

#include <cmath>

#include "hugectr_lite/ops/activation.h"

namespace hlite::ops {

struct Tanh {
  static constexpr const char *kForward = "tanh_forward", *kBackward = "tanh_backward";
  static constexpr int64_t kGrain = 1 << 12;
  [[nodiscard]] HLITE_HD float value(float x) const { return std::tanh(x); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return dy * (1 - y) * (1 + y); }
  void check() const {}
};

}  // namespace hlite::ops
