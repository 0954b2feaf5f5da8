#include "hugectr_lite/ops/bce_loss.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {

void bce_loss(const Exec& exec, Matrix<const float> logits, Matrix<const float> labels, float* loss,
              Matrix<float> dlogits, int64_t mean_over) {
  const int64_t batch = logits.dim(0);
  HLITE_CHECK(logits.dim(1) == 1 && labels.dim(0) == batch && labels.dim(1) == 1,
              "logits {}, labels {}", logits.shape(), labels.shape());
  HLITE_CHECK(!dlogits.data() || (dlogits.dim(0) == batch && dlogits.dim(1) == 1),
              "dlogits {}, logits {}", dlogits.shape(), logits.shape());
  HLITE_CHECK(loss != nullptr, "bce_loss has nowhere to write the loss");
  ThreadPool& threads = cpu_threads(exec, "bce_loss");
  *loss = 0;
  if (batch == 0) return;

  constexpr int64_t kBlock = 256;
  const int64_t blocks = (batch + kBlock - 1) / kBlock;
  thread_local std::vector<double> workspace;  // grown once
  if (workspace.size() < static_cast<size_t>(blocks)) workspace.resize(static_cast<size_t>(blocks));
  double* const partial = workspace.data();
  const double share = 1.0 / static_cast<double>(mean_over > 0 ? mean_over : batch);
  threads.run(blocks, [&](int64_t block, int) {
    double sum = 0;
    for (int64_t i = block * kBlock; i < std::min(batch, (block + 1) * kBlock); ++i) {
      const BceTerm term =
          bce_term(static_cast<double>(logits.data()[i]), static_cast<double>(labels.data()[i]));
      sum += term.loss;
      if (dlogits.data()) dlogits.data()[i] = static_cast<float>(term.gradient * share);
    }
    partial[block] = sum;
  });
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block];
  *loss = static_cast<float>(sum * share);
}

}  // namespace hlite::ops
