// The kernel of the loss scale: one thread.
#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::optimizer::gpu {
namespace {

__global__ void update_kernel(int32_t grow_after, LossScale* state) {
  *state = next_loss_scale(*state, grow_after);
}

}  // namespace

void update_loss_scale(cudaStream_t stream, int32_t grow_after, LossScale* state) {
  launch({.name = "update_loss_scale", .stream = stream}, update_kernel, grow_after, state);
}

HLITE_KERNELS(loss_scale) { list.add<update_loss_scale>(kernels::update_loss_scale); }

}  // namespace hlite::optimizer::gpu
