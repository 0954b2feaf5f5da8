// The last block of a grid, or of a part of it, to be done: it sums what the others left, in an order
// that does not depend on who came last.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {

// Counters that come with memory for partial results. They are 0 before and after every kernel.
inline constexpr int64_t kBlockCounters = 256;

// True in all threads of the last of `blocks` blocks that call it with one counter; what the others
// wrote before is then visible. By all threads of a block.
__device__ inline bool is_last_block(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();  // all have written
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    last = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace hlite::ops::gpu
