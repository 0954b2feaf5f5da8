// Kernels of the gradients' norm: a pass over the gradients (4 bytes each), a pack a thread, one
// block for the sum of the blocks, and one thread for the factors.
#include "hugectr_lite/ops/gradient_norm.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/block_sum.cuh"

namespace hlite::ops::gpu {
namespace {

template <int kCount>
__global__ void __launch_bounds__(kSumThreads)
    square_sum_kernel(Vector<const float> x, double* sums) {
  double sum = 0;
  for_each_pack<kCount>(x.size(), [&]<int k>(int64_t at) {
    const Pack<float, k> values = load_pack<k>(x.data() + at);
    for (int i = 0; i < k; ++i) {
      const auto value = static_cast<double>(values.value[i]);
      sum += value * value;
    }
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(32) clip_kernel(Vector<const double> squares, double most,
                                                  ScaledSums scaled, ClipFactors* factors) {
  if (threadIdx.x == 0) *factors = clip_factors(squares, most, scaled);
}

}  // namespace

void square_sum(cudaStream_t stream, Vector<const float> x, Vector<double> workspace, double* sum) {
  constexpr int kCount = kPackCount<float>;
  with_pack_count<kCount>(starts_pack<kCount>(x.data()), [&](auto count) {
    const dim3 grid = pack_grid(x.size(), count, kBlockSums);
    launch({.name = "square_sum", .grid = grid, .block = dim3(kSumThreads), .stream = stream},
           square_sum_kernel<count()>, x, workspace.data());
    finish_sum<false>("square_sum_total", stream, workspace.data(), grid.x, 1.0, sum);
  });
}

void clip_gradients(cudaStream_t stream, Vector<const double> squares, double most,
                    const ScaledSums& scaled, ClipFactors* factors) {
  launch({.name = "clip_gradients", .block = dim3(32), .stream = stream}, clip_kernel, squares,
         most, scaled, factors);
}

HLITE_KERNELS(gradient_norm) {
  list.add<square_sum>(kernels::square_sum);
  list.add<clip_gradients>(kernels::clip_gradients);
}

}  // namespace hlite::ops::gpu
