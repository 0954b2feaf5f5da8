#include "hugectr_lite/ops/regularizer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {

void add_penalty(const Exec& exec, Vector<const float> w, Vector<float> dw, float* loss,
                 const RegularizerOptions& options) {
  HLITE_CHECK(w.dim(0) == dw.dim(0), "add_penalty: w {}, dw {}", w.shape(), dw.shape());
  HLITE_CHECK(loss != nullptr, "add_penalty has no loss to add to");
  if (exec.on_gpu()) {
    HLITE_CHECK(options.workspace.size() >= kBlockSums,
                "add_penalty: a workspace of {} numbers, expected {}", options.workspace.size(),
                kBlockSums);
    return kernels::add_penalty(exec, w, dw, loss, options);
  }
  const float scale = options.scale ? *options.scale : 1.0f;
  const float factor = static_cast<float>(options.lambda) * scale;
  double sum = 0;
  for (int64_t i = 0; i < w.size(); ++i) {
    const PenaltyTerm term = penalty_term(options.penalty, w.data()[i]);
    sum += term.loss;
    dw.data()[i] += factor * term.gradient;
  }
  *loss = static_cast<float>(static_cast<double>(*loss) + options.lambda * sum);
}

}  // namespace hlite::ops
