// Sums over the threads of a block.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"

namespace hlite::embedding::gpu {

// Sum of a value of each thread of a block, and of those of the threads before this one.
struct BlockSum {
  uint32_t before, all;
};
// By all threads of a block of whole warps.
__device__ inline BlockSum sum_block(uint32_t value, uint32_t* of_warp /*[32], shared*/) {
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t sum = value;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // the sums of the call before have been read
  if (lane == kWarp - 1) of_warp[warp] = sum;
  __syncthreads();
  BlockSum of{sum - value, 0};
  for (uint32_t w = 0; w < blockDim.x / kWarp; ++w) {
    if (w < warp) of.before += of_warp[w];
    of.all += of_warp[w];
  }
  return of;
}

}  // namespace hlite::embedding::gpu
