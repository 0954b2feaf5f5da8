// Dropout on device memory: the launcher of the kernel in dropout.cu. Formula and aliasing are
// those of dropout.h; forward and backward are the same map.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/dropout.h"

namespace hlite::ops::gpu {

template <typename T>
void dropout(cudaStream_t stream, Vector<const T> x, Vector<T> y, const DropoutMask& mask);

}  // namespace hlite::ops::gpu
