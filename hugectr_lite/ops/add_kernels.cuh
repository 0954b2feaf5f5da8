// Sums on device memory: the launcher of the kernel in add.cu, with the contract of add.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

// `inputs`: `count` views of device memory, in host memory.
template <typename T>
void add_forward(cudaStream_t stream, const Vector<const T>* inputs, int64_t count, Vector<T> out);

}  // namespace hlite::ops::gpu
