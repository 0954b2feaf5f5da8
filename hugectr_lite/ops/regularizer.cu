// Kernels of the penalties: one pass over parameters and gradients (12 bytes a parameter), a pack a
// thread, then one block for the sum of the blocks.
#include "hugectr_lite/ops/regularizer.h"

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/block_sum.cuh"

namespace hlite::ops::gpu {
namespace {

static_assert(kSumThreads == kPackThreads);

template <typename T, int kCount>
__global__ void __launch_bounds__(kSumThreads)
    penalty_kernel(Vector<const T> w, Vector<float> dw, Penalty penalty, float lambda,
                   const float* scale, double* sums) {
  const float factor = scale ? lambda * *scale : lambda;
  double sum = 0;
  for_each_pack<kCount>(w.size(), [&]<int k>(int64_t at) {
    const Pack<T, k> weights = load_pack<k>(w.data() + at);
    Pack<float, k> gradients = load_pack<k>(dw.data() + at);
    for (int i = 0; i < k; ++i) {
      const PenaltyTerm term = penalty_term(penalty, to_float(weights.value[i]));
      sum += term.loss;
      gradients.value[i] += factor * term.gradient;
    }
    store_pack(dw.data() + at, gradients);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

template <typename T>
void add_penalty(cudaStream_t stream, Vector<const T> w, Vector<float> dw, float* loss,
                 const RegularizerOptions& options) {
  constexpr int kCount = kPackCount<float>;
  const bool aligned = starts_pack<kCount>(w.data()) && starts_pack<kCount>(dw.data());
  double* const sums = options.workspace.data();
  with_pack_count<kCount>(aligned, [&](auto count) {
    const dim3 grid = pack_grid(w.size(), count, kBlockSums);
    launch({.name = "add_penalty", .grid = grid, .block = dim3(kSumThreads), .stream = stream},
           penalty_kernel<T, count()>, w, dw, options.penalty, static_cast<float>(options.lambda),
           options.scale, sums);
    finish_sum<true>("add_penalty_sum", stream, sums, grid.x, options.lambda, loss);
  });
}

HLITE_KERNELS(regularizer) {
  for_each_float([&]<typename T>() { list.add<add_penalty<T>>(kernels::add_penalty<T>); });
}

}  // namespace hlite::ops::gpu
