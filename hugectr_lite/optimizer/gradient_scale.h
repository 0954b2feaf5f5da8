// GradientScale: how gradients of a scaled loss become those of the loss itself, and whether they
// count.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"

namespace hlite::optimizer {

// All lie in memory of the device that the update runs on, since they change from step to step.
struct GradientScale {
  const float* inverse = nullptr;  // gradients are multiplied by it; null: by 1
  // Not 0: the update changes nothing. `skip`: gradients overflowed. `capacity_exceeded`: an
  // exchange did not fit its buffers, and the run is repeated. Null: never.
  const int32_t* skip = nullptr;
  const int32_t* capacity_exceeded = nullptr;

  [[nodiscard]] HLITE_HD bool skips() const {
    return (skip && *skip != 0) || (capacity_exceeded && *capacity_exceeded != 0);
  }
};

}  // namespace hlite::optimizer
