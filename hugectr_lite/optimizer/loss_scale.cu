// The kernels of the loss scale: one thread.
#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::optimizer::gpu {
namespace {

__global__ void update_kernel(int32_t grow_after, LossScale* state, RanksVerdict ranks) {
  *state = next_loss_scale(*state, grow_after, ranks);
}

__global__ void tell_found_kernel(const LossScale* state, float* word) {
  *word = state->found != 0 ? 1.0f : 0.0f;
}

}  // namespace

void update_loss_scale(cudaStream_t stream, int32_t grow_after, LossScale* state,
                       const RanksVerdict& ranks) {
  launch({.name = "update_loss_scale", .stream = stream}, update_kernel, grow_after, state, ranks);
}

void tell_found(cudaStream_t stream, const LossScale* state, float* word) {
  launch({.name = "tell_found", .stream = stream}, tell_found_kernel, state, word);
}

HLITE_KERNELS(loss_scale) {
  list.add<update_loss_scale>(kernels::update_loss_scale);
  list.add<tell_found>(kernels::tell_found);
}

}  // namespace hlite::optimizer::gpu
