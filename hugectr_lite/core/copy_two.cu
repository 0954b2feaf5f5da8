#include "hugectr_lite/core/copy_two.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::gpu {

static __global__ void copy_two_kernel(kernels::TwoFloats floats) {
  for (int i = 0; i < 2; ++i) *floats.to[i] = *static_cast<const volatile float*>(floats.from[i]);
}

void copy_two(cudaStream_t stream, const kernels::TwoFloats& floats) {
  launch({.name = "copy_two", .stream = stream}, copy_two_kernel, floats);
}

HLITE_KERNELS(copy_two) { list.add<copy_two>(kernels::copy_two); }

}  // namespace hlite::gpu
