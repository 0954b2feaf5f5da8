// Kernels of the exact area under the ROC curve, and of the log loss.
//
// Scores become integers of the same order and are sorted, with one byte a sample that says whether
// it is positive. With p[i] positives before place i, a group of equal scores at places [i, j) has
// P = p[j] - p[i] positives, N = j - i - P negatives, and i - p[i] negatives below: its positives
// win P * (2 * (i - p[i]) + N) half pairs. All of this is whole numbers:
// exact in any order of sums.
//
// Bytes for n samples: 8 n read and 5 n written, the sort 4 * 10 n + 4 n, positives 5 n, groups 8
// n: 70 n, or 1.3 ms at 4.8 TB/s for the 89 million samples of Criteo's evaluation set.
#include "hugectr_lite/ops/metrics.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/device_sort.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {
namespace {

using Word = unsigned long long;

constexpr int kThreads = 256;
constexpr int kBlockSamples = 4096;  // whose losses one block sums
constexpr int kSortBits = 32;
constexpr size_t kAlignment = 256;

// The sum over all threads of the block, for thread 0. Always adds in the same order.
template <typename T>
__device__ inline T block_sum(T value) {
  __shared__ T sums[kThreads / 32];
  for (int delta = 16; delta > 0; delta /= 2)
    value += __shfl_down_sync(0xffffffffu, value, static_cast<unsigned>(delta));
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kThreads / 32; ++warp) value += sums[warp];
  __syncthreads();
  return value;
}

// A block takes kBlockSamples neighbouring samples, its threads every kThreads-th of them: what the
// sort needs, the block's share of the loss, positives and the first NaN.
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(Vector<const float> logits, Vector<const float> labels, uint32_t* keys,
                   uint8_t* positive, double* losses, EvaluationSums* sums) {
  const int64_t begin = int64_t{blockIdx.x} * kBlockSamples;
  const int64_t n = logits.dim(0);
  const int64_t end = begin + kBlockSamples < n ? begin + kBlockSamples : n;
  double loss = 0;
  Word positives = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float score = logits.data()[i], label = labels.data()[i];
    keys[i] = ordered_bits(score);
    positive[i] = label > 0.5f;
    positives += label > 0.5f;
    const auto z = static_cast<double>(score), y = static_cast<double>(label);
    loss += (z > 0 ? z : 0) - z * y + log1p(exp(-fabs(z)));
    if (score != score) atomicMax(&sums->first_nan, ~static_cast<Word>(i));
  }
  loss = block_sum(loss);
  positives = block_sum(positives);
  if (threadIdx.x != 0) return;
  losses[blockIdx.x] = loss;
  atomicAdd(&sums->positives, positives);
}

// One block adds up what the others left: each thread every kThreads-th number, in order.
__global__ void __launch_bounds__(kThreads)
    add_losses_kernel(const double* losses, int64_t n, EvaluationSums* sums) {
  double loss = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) loss += losses[i];
  loss = block_sum(loss);
  if (threadIdx.x == 0) sums->loss = loss;
}

// End of the group of equal keys that begins at `begin`: in ever longer strides, then by bisection,
// since a group may have millions of members, or one.
__device__ inline uint32_t group_end(const uint32_t* keys, uint32_t begin, uint32_t n) {
  const uint32_t key = keys[begin];
  uint32_t inside = begin, outside = begin + 1;
  for (uint32_t stride = 1; outside < n && keys[outside] == key; stride *= 2) {
    inside = outside;
    outside = n - outside > stride ? outside + stride : n;
  }
  while (outside - inside > 1) {
    const uint32_t middle = inside + (outside - inside) / 2;
    if (keys[middle] == key)
      inside = middle;
    else
      outside = middle;
  }
  return outside;
}

// The thread at the first place of a group of equal keys counts the group's half pairs.
__global__ void __launch_bounds__(kThreads)
    groups_kernel(const uint32_t* keys, const uint32_t* positives_before, uint32_t n,
                  EvaluationSums* sums) {
  Word won = 0;
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += threads) {
    const auto begin = static_cast<uint32_t>(i);
    if (begin > 0 && keys[begin - 1] == keys[begin]) continue;
    const uint32_t end = group_end(keys, begin, n);
    const Word before = positives_before[begin];
    const Word positives = (end < n ? positives_before[end] : sums->positives) - before;
    won += positives * (2 * (begin - before) + (end - begin - positives));
  }
  won = block_sum(won);
  if (threadIdx.x == 0) atomicAdd(&sums->won_twice, won);
}

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The places of the arrays for n samples, from `memory` on.
struct AucArrays {
  EvaluationSums* sums;
  double* losses;
  uint32_t* keys[2];
  uint8_t* positive[2];
  std::byte* end;

  AucArrays(std::byte* memory, int64_t n) {
    const auto cut = [&](size_t bytes) {
      std::byte* const array = memory;
      memory += padded(bytes);
      return array;
    };
    const auto samples = static_cast<size_t>(n);
    sums = reinterpret_cast<EvaluationSums*>(cut(sizeof(EvaluationSums)));
    losses = reinterpret_cast<double*>(cut((samples / kBlockSamples + 1) * sizeof(double)));
    for (uint32_t*& array : keys) array = reinterpret_cast<uint32_t*>(cut(samples * 4));
    for (uint8_t*& array : positive) array = reinterpret_cast<uint8_t*>(cut(samples));
    end = memory;
  }
};

}  // namespace

size_t evaluation_workspace(int64_t max_samples) {
  if (max_samples >= int64_t{1} << 31)
    throw CudaError("evaluation: expected fewer than 2^31 samples, found " +
                    std::to_string(max_samples));
  const auto n = static_cast<uint32_t>(max_samples);
  std::byte* const none = nullptr;
  const auto arrays = static_cast<size_t>(AucArrays(none, max_samples).end - none);
  if (n == 0) return arrays;
  return arrays + std::max(hlite::gpu::sort_pairs_bytes<uint8_t>(n, kSortBits),
                           hlite::gpu::exclusive_sums_bytes(n));
}

void evaluate(cudaStream_t stream, Vector<const float> logits, Vector<const float> labels,
              std::byte* workspace, size_t workspace_bytes, EvaluationSums* to) {
  const auto n = static_cast<uint32_t>(logits.dim(0));
  const AucArrays arrays(workspace, logits.dim(0));
  const hlite::gpu::Temporary temporary{
      arrays.end, workspace_bytes - static_cast<size_t>(arrays.end - workspace)};
  const auto shape = [&](const char* name, dim3 grid) {
    return LaunchShape{.name = name, .grid = grid, .block = kThreads, .stream = stream};
  };
  HLITE_CUDA(cudaMemsetAsync(arrays.sums, 0, sizeof(EvaluationSums), stream));
  const dim3 blocks = grid_for(n, kBlockSamples);
  launch(shape("prepare_evaluation", blocks), prepare_kernel, logits, labels, arrays.keys[0],
         arrays.positive[0], arrays.losses, arrays.sums);
  launch(shape("add_losses", 1), add_losses_kernel, arrays.losses, int64_t{blocks.x}, arrays.sums);
  const int sorted = hlite::gpu::sort_pairs<uint8_t>(
      stream, temporary,
      {{arrays.keys[0], arrays.keys[1]}, {arrays.positive[0], arrays.positive[1]}, n}, kSortBits);
  uint32_t* const positives_before = arrays.keys[1 - sorted];  // free after the sort
  hlite::gpu::exclusive_sums(stream, temporary, arrays.positive[sorted], positives_before, n);
  launch(shape("count_won_pairs", grid_for(n, kThreads, int64_t{1} << 14)), groups_kernel,
         arrays.keys[sorted], positives_before, n, arrays.sums);
  HLITE_CUDA(cudaMemcpyAsync(to, arrays.sums, sizeof(EvaluationSums), cudaMemcpyDefault, stream));
}

HLITE_KERNELS(metrics) {
  list.add<evaluation_workspace>(kernels::evaluation_workspace);
  list.add<evaluate>(kernels::evaluate);
}

}  // namespace hlite::ops::gpu
