// y = max(x, 0) and its gradient dx = dy where y > 0, else 0.
#pragma once

#include "hugectr_lite/ops/activation.h"

namespace hlite::ops {

// NaN stays NaN, so that a broken run shows in the loss. -0 becomes 0.
HLITE_HD inline float relu(float x) { return x <= 0 ? 0.0f : x; }
HLITE_HD inline float relu_gradient(float y, float dy) { return y > 0 ? dy : 0.0f; }

struct Relu {
  static constexpr const char *kForward = "relu_forward", *kBackward = "relu_backward";
  static constexpr int64_t kGrain = 1 << 14;
  [[nodiscard]] HLITE_HD float value(float x) const { return relu(x); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return relu_gradient(y, dy); }
  void check() const {}
};

}  // namespace hlite::ops
