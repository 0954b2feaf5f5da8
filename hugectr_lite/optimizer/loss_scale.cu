// The kernels of the loss scale: one thread.
#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::optimizer::gpu {
namespace {

__global__ void update_kernel(int32_t grow_after, LossScale* state, RanksVerdict ranks) {
  *state = next_loss_scale(*state, grow_after, ranks);
}

__global__ void report_gradient_overflow_kernel(const LossScale* state, float* word) {
  *word = state->gradient_overflow != 0 ? 1.0f : 0.0f;
}

}  // namespace

void update_loss_scale(cudaStream_t stream, int32_t grow_after, LossScale* state,
                       const RanksVerdict& ranks) {
  launch({.name = "update_loss_scale", .stream = stream}, update_kernel, grow_after, state, ranks);
}

void report_gradient_overflow(cudaStream_t stream, const LossScale* state, float* word) {
  launch({.name = "report_gradient_overflow", .stream = stream}, report_gradient_overflow_kernel,
         state, word);
}

HLITE_KERNELS(loss_scale) {
  list.add<update_loss_scale>(kernels::update_loss_scale);
  list.add<report_gradient_overflow>(kernels::report_gradient_overflow);
}

}  // namespace hlite::optimizer::gpu
