// The kernel of the sum of losses: one thread, in the doubles of the CPU.
#include "hugectr_lite/ops/loss_sum.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {
namespace {

__global__ void add_loss_kernel(const float* loss, int64_t samples, const int32_t* void_run,
                                LossSum* sum) {
  if (!void_run || *void_run == 0) add_batch(*sum, *loss, samples);
}

}  // namespace

void add_loss(cudaStream_t stream, const float* loss, int64_t samples, const int32_t* void_run,
              LossSum* sum) {
  launch({.name = "add_loss", .block = dim3(1), .stream = stream}, add_loss_kernel, loss, samples,
         void_run, sum);
}

HLITE_KERNELS(loss_sum) { list.add<add_loss>(kernels::add_loss); }

}  // namespace hlite::ops::gpu
