#include "hugectr_lite/ops/mean_loss.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

template <typename T>
void loss_on_cpu(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels,
                 float* loss, Matrix<T> dlogits, const LossOptions& options) {
  ThreadPool& threads = cpu_threads_for<T>(exec, "mean_loss");
  const int64_t n = logits.size(), tasks = logits.dim(1), width = labels.dim(1);
  *loss = 0;
  if (n == 0) return;

  constexpr int64_t kBlock = 256;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  thread_local std::vector<double> workspace;  // grown once
  if (workspace.size() < static_cast<size_t>(blocks)) workspace.resize(static_cast<size_t>(blocks));
  double* const partial = workspace.data();
  const int64_t samples = options.mean_over > 0 ? options.mean_over : logits.dim(0);
  const double share = 1.0 / static_cast<double>(samples * tasks);
  const double factor =
      share * options.gradient_factor * (options.scale ? static_cast<double>(*options.scale) : 1);
  threads.run(blocks, [&](int64_t block, int) {
    double sum = 0;
    for (int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) {
      const LossTerm term =
          loss_term(options, labels.data(), width, i, static_cast<double>(logits.data()[i]));
      sum += term.loss;
      if (dlogits.data())
        dlogits.data()[i] = from_float<T>(static_cast<float>(term.gradient * factor));
    }
    partial[block] = sum;
  });
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block];
  *loss = static_cast<float>(sum * share);
}

}  // namespace

template <typename T>
void mean_loss(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels,
               float* loss, MatrixOf<T> dlogits, const LossOptions& options) {
  const int64_t batch = logits.dim(0), tasks = std::max(options.tasks.count, 1);
  HLITE_CHECK(tasks <= TaskWeights::kMax && logits.dim(1) == tasks && labels.dim(0) == batch &&
                  (labels.dim(1) == tasks || labels.dim(1) == tasks + 1),
              "logits {}, labels {}, {} tasks", logits.shape(), labels.shape(), tasks);
  HLITE_CHECK(!dlogits.data() || (dlogits.dim(0) == batch && dlogits.dim(1) == tasks),
              "dlogits {}, logits {}", dlogits.shape(), logits.shape());
  HLITE_CHECK(loss != nullptr, "mean_loss has nowhere to write the loss");
  if (exec.on_gpu()) {
    HLITE_CHECK(options.workspace.size() >= kBlockSums,
                "mean_loss: a workspace of {} numbers, expected {}", options.workspace.size(),
                kBlockSums);
    return kernels::mean_loss<T>(exec, logits, labels, loss, dlogits, options);
  }
  loss_on_cpu(exec, logits, labels, loss, dlogits, options);
}

HLITE_INSTANTIATE_FLOATS(mean_loss)

}  // namespace hlite::ops
