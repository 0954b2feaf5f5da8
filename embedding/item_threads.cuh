// Kernels of a thread an item (a lookup, a row, an element): the block that they are compiled for,
// and how they are launched. Items by thread: global_thread() and grid_threads() of core/pack.cuh.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::embedding::gpu {

inline constexpr int kItemThreads = 256;  // of a block

// At least `items` threads, unless `max_blocks` are fewer: then a thread takes several.
inline LaunchShape item_shape(const char* name, int64_t items, cudaStream_t stream,
                              int64_t max_blocks = kMaxGridX) {
  return {.name = name,
          .grid = grid_for(items, kItemThreads, max_blocks),
          .block = kItemThreads,
          .stream = stream};
}

}  // namespace hlite::embedding::gpu
