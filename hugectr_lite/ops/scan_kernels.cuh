// Looking for NaN and infinity in device memory: launchers of the kernels in scan.cu, with the
// contract of scan.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

// Waits for the stream; takes and gives back eight bytes of device memory.
template <typename T>
int64_t first_non_finite(cudaStream_t stream, Vector<const T> x);
template <typename T>
void flag_non_finite(cudaStream_t stream, Vector<const T> x, int32_t* found);

}  // namespace hlite::ops::gpu
