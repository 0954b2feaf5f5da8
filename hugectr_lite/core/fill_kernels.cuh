// First values of arrays in device memory: launchers of the kernels in fill.cu.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"

namespace hlite::gpu {

// out[i] = value, i in [0, n).
void fill(cudaStream_t stream, float* out, int64_t n, float value);

// random::fill_uniform of core/random.h, with the same bits: out[i] = low + (high - low) *
// uniform(element first + i of random_stream under seed).
void fill_uniform(cudaStream_t stream, float* out, int64_t n, uint64_t seed, uint64_t random_stream,
                  uint64_t first, float low, float high);

}  // namespace hlite::gpu
