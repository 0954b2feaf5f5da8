// Device functions by which insertion kernels count in a KeyFilter.
#pragma once

#include "embedding/key_filter_ref.h"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::embedding::gpu {

// To be called at the beginning of an insertion: counts the keys that wait, if another iteration
// has begun. Keys of the iteration at hand, whose run is made again, are forgotten.
void open_filter(cudaStream_t stream, const KeyFilterRef& filter, const int64_t* step);

// Returns the count of a key of the batch at hand, and lets it wait for being counted. Threads may
// do so for the same key.
__device__ inline uint32_t count_in_filter(const KeyFilterRef& filter, uint64_t key) {
  const uint32_t count = filter.count_with_batch(key);
  const uint32_t at = atomicAdd(&filter.state->waiting, 1u);
  if (at < filter.max_waiting) filter.waiting[at] = {key, count};
  return count;
}

}  // namespace hlite::embedding::gpu
