// y = x where x > 0, else alpha (e^x - 1), and its gradient dx = dy where y > 0, else
// dy (y + alpha).
#pragma once

#include <cmath>

#include "hugectr_lite/ops/activation.h"

namespace hlite::ops {

struct Elu {
  static constexpr const char *kForward = "elu_forward", *kBackward = "elu_backward";
  static constexpr int64_t kGrain = 1 << 12;
  float alpha = 1;  // >= 0, so that y has the sign of x

  // NaN stays NaN. expm1: small x keep their digits.
  [[nodiscard]] HLITE_HD float value(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  // The rounding of y to T goes into dx: at most alpha |dy| times half a unit in the last place
  // of 1.
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const {
    return y > 0 ? dy : dy * (y + alpha);
  }
  void check() const;
};

}  // namespace hlite::ops
