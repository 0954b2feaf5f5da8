#include "hugectr_lite/ops/regularizer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/block_sums.h"
#include "hugectr_lite/ops/piece_sums.h"

namespace hlite::ops {

template <typename T>
void add_penalty(const Exec& exec, VectorOf<const T> w, Vector<float> dw, float* loss,
                 const RegularizerOptions& options) {
  HLITE_CHECK(w.dim(0) == dw.dim(0), "add_penalty: w {}, dw {}", w.shape(), dw.shape());
  HLITE_CHECK(loss != nullptr, "add_penalty has no loss to add to");
  if (exec.on_gpu()) {
    HLITE_CHECK(options.workspace.size() >= kBlockSums,
                "add_penalty: a workspace of {} numbers, expected {}", options.workspace.size(),
                kBlockSums);
    return kernels::add_penalty<T>(exec, w, dw, loss, options);
  }
  const float scale = options.scale ? *options.scale : 1.0f;
  const float factor = static_cast<float>(options.lambda) * scale;
  const auto add = [&]<Penalty kPenalty>() {
    return piece_sum(exec, w.size(), options.workspace, [&](int64_t begin, int64_t end) {
      return sum_in_lanes(begin, end, [&](int64_t i) {
        const PenaltyTerm term = penalty_term(kPenalty, to_float(w.data()[i]));
        dw.data()[i] += factor * term.gradient;
        return term.loss;
      });
    });
  };
  const double sum = options.penalty == Penalty::kL1 ? add.template operator()<Penalty::kL1>()
                                                     : add.template operator()<Penalty::kL2>();
  *loss = static_cast<float>(static_cast<double>(*loss) + options.lambda * sum);
}

HLITE_INSTANTIATE_FLOATS(add_penalty)

}  // namespace hlite::ops
