// The sum of a warp's values, and kernels that give a warp to each row.
#pragma once

#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {

inline constexpr int kWarpsOfBlock = 8;

// Returns the sum in every thread of the warp.
template <typename T>
__device__ inline T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// body(row) by a whole warp for every row of [0, rows).
template <typename Body>
__device__ inline void for_each_warp_row(int64_t rows, Body&& body) {
  for (int64_t row = int64_t{blockIdx.x} * kWarpsOfBlock + threadIdx.y; row < rows;
       row += int64_t{gridDim.x} * kWarpsOfBlock)
    body(row);
}

inline LaunchShape warp_rows(const char* name, int64_t rows, cudaStream_t stream) {
  return {.name = name,
          .grid = grid_for(rows, kWarpsOfBlock),
          .block = dim3(kWarp, kWarpsOfBlock),
          .stream = stream};
}

}  // namespace hlite::ops::gpu
