// The two halves of a sum over a tensor (block_sums.h): within a block, and over the blocks.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {

inline constexpr int kSumThreads = 256;

// The sum of all threads' values, in thread 0. Called once by all kSumThreads threads of a block.
__device__ inline double block_sum(double value) {
  constexpr int kWarps = kSumThreads / kWarp;
  __shared__ double sums[kWarps];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = warp_sum(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  return warp == 0 ? warp_sum(lane < kWarps ? sums[lane] : 0.0) : 0.0;
}

// *total = factor * (sums[0] + ... + sums[count - 1]), or += where kAdd. One block.
template <bool kAdd, typename Total>
__global__ void __launch_bounds__(kSumThreads)
    finish_sum_kernel(const double* sums, int64_t count, double factor, Total* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    *total = static_cast<Total>((kAdd ? static_cast<double>(*total) : 0.0) + factor * sum);
}

template <bool kAdd, typename Total>
void finish_sum(const char* name, cudaStream_t stream, const double* sums, int64_t count,
                double factor, Total* total) {
  launch({.name = name, .block = dim3(kSumThreads), .stream = stream},
         finish_sum_kernel<kAdd, Total>, sums, count, factor, total);
}

}  // namespace hlite::ops::gpu
