// The loss scale on device memory: the launcher of the kernel in loss_scale.cu, with the contract
// of loss_scale.h.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/optimizer/loss_scale.h"

namespace hlite::optimizer::gpu {

void update_loss_scale(cudaStream_t stream, int32_t grow_after, LossScale* state);

}  // namespace hlite::optimizer::gpu
