// Looking for numbers that are none: names the layer where a loss turned NaN.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Index of the first NaN or infinity in x, or -1.
[[nodiscard]] int64_t first_non_finite(const Exec& exec, Vector<const float> x);

}  // namespace hlite::ops
