// GradientScale: how gradients of a scaled loss become those of the loss itself.
#pragma once

#include <cstdint>

namespace hlite::optimizer {

// Both lie in memory of the device that the update runs on, since they change from step to step.
struct GradientScale {
  const float* inverse = nullptr;  // gradients are multiplied by it; null: by 1
  const int32_t* skip = nullptr;   // not 0: the step changes nothing; null: never
};

}  // namespace hlite::optimizer
