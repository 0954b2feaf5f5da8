// Kernels of the losses: one pass over the batch for loss and gradient, a sample a
// thread, then one block for the sum of the blocks.
//
// A batch of 65,536 moves 0.8 MB and takes an exponential, a logarithm and a division in double a
// sample: less than 1 us each on an H200 (GPUs with few double-precision units are not what this is
// made for). The latency of two kernels is what counts.
#include "hugectr_lite/ops/mean_loss.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/block_sum.cuh"

namespace hlite::ops::gpu {
namespace {

// dlogits null: none.
template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    loss_kernel(Vector<const float> logits, const float* labels, int64_t label_width, T* dlogits,
                double share, LossOptions options, double* sums) {
  const double factor =
      share * options.gradient_factor * (options.scale ? static_cast<double>(*options.scale) : 1);
  double sum = 0;
  for (int64_t i = global_thread(); i < logits.size(); i += grid_threads()) {
    const LossTerm term =
        loss_term(options, labels, label_width, i, static_cast<double>(logits.data()[i]));
    sum += term.loss;
    if (dlogits) dlogits[i] = from_float<T>(static_cast<float>(term.gradient * factor));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

template <typename T>
void mean_loss(cudaStream_t stream, Matrix<const float> logits, Matrix<const float> labels,
               float* loss, Matrix<T> dlogits, const LossOptions& options) {
  const int64_t batch = logits.dim(0);
  const int64_t mean_over = (options.mean_over > 0 ? options.mean_over : batch) * logits.dim(1);
  const double share = batch > 0 ? 1.0 / static_cast<double>(mean_over) : 0.0;
  const dim3 grid = grid_for(logits.size(), kSumThreads, kBlockSums);
  double* const sums = options.workspace.data();
  launch({.name = "mean_loss", .grid = grid, .block = dim3(kSumThreads), .stream = stream},
         loss_kernel<T>, Vector<const float>(logits.data(), logits.size()), labels.data(),
         labels.dim(1), dlogits.data(), share, options, sums);
  finish_sum<false>("mean_loss_sum", stream, sums, grid.x, share, loss);
}

HLITE_KERNELS(mean_loss) {
  for_each_float([&]<typename T>() { list.add<mean_loss<T>>(kernels::mean_loss<T>); });
}

}  // namespace hlite::ops::gpu
