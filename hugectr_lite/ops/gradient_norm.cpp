#include "hugectr_lite/ops/gradient_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/piece_sums.h"

namespace hlite::ops {

void square_sum(const Exec& exec, Vector<const float> x, Vector<double> workspace, double* sum) {
  HLITE_CHECK(sum != nullptr && workspace.size() >= kBlockSums,
              "square_sum: a workspace of {} numbers, expected {}", workspace.size(), kBlockSums);
  if (exec.on_gpu()) return kernels::square_sum(exec, x, workspace, sum);
  *sum = piece_sum(exec, x.size(), workspace, [&](int64_t begin, int64_t end) {
    return sum_in_lanes(begin, end, [&](int64_t i) {
      const auto value = static_cast<double>(x.data()[i]);
      return value * value;
    });
  });
}

void clip_gradients(const Exec& exec, Vector<const double> squares, double most,
                    const ScaledSums& scaled, ClipFactors* factors) {
  HLITE_CHECK(squares.size() >= 1 && most > 0 && factors != nullptr,
              "clip_gradients: {} sums, at most {}", squares.size(), most);
  if (exec.on_gpu()) return kernels::clip_gradients(exec, squares, most, scaled, factors);
  *factors = clip_factors(squares, most, scaled);
}

}  // namespace hlite::ops
