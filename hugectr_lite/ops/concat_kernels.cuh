// Blocks of columns on device memory: the launcher of the kernel in concat.cu, with the contract of
// concat.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/concat.h"

namespace hlite::ops::gpu {

// `blocks`: `count` blocks of device memory, listed in host memory.
template <typename T>
void concat_columns(cudaStream_t stream, const ColumnBlock<T>* blocks, int64_t count,
                    Matrix<T> out);

}  // namespace hlite::ops::gpu
