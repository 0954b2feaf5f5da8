// GradientScale: how gradients of a scaled loss become those of the loss itself, and whether they
// count.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"

namespace hlite::optimizer {

// All lie in memory of the device that the update runs on, since they change from step to step.
struct GradientScale {
  const float* inverse = nullptr;  // gradients are multiplied by it; null: by 1
  // Not 0: the step changes nothing, because gradients overflowed, or because what ranks exchange
  // did not fit its buffers. Null: never.
  const int32_t* skip = nullptr;
  const int32_t* overflow = nullptr;

  [[nodiscard]] HLITE_HD bool skips() const {
    return (skip && *skip != 0) || (overflow && *overflow != 0);
  }
};

}  // namespace hlite::optimizer
