// Penalties on device memory: the launcher of the kernels in regularizer.cu, with the contract of
// regularizer.h.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/regularizer.h"

namespace hlite::ops::gpu {

void add_penalty(cudaStream_t stream, Vector<const float> w, Vector<float> dw, float* loss,
                 const RegularizerOptions& options);

}  // namespace hlite::ops::gpu
