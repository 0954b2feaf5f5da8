// A tensor copied as it is: what Reshape and evaluating Dropout do, and the gradient of Add.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// to[i] = from[i]; from and to [N] do not overlap. T: float, bf16 or fp16, on every device.
template <typename T = float>
void copy(const Exec& exec, VectorOf<const T> from, VectorOf<T> to);

}  // namespace hlite::ops
