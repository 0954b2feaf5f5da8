#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/error.h"

namespace hlite::optimizer {

void update_loss_scale(const Exec& exec, int32_t grow_after, LossScale* state,
                       const RanksVerdict& ranks) {
  HLITE_CHECK(grow_after >= 1, "update_loss_scale: grow after {} iterations", grow_after);
  HLITE_CHECK(state != nullptr, "update_loss_scale has no state");
  if (exec.on_gpu()) return kernels::update_loss_scale(exec, grow_after, state, ranks);
  *state = next_loss_scale(*state, grow_after, ranks);
}

void report_gradient_overflow(const Exec& exec, const LossScale* state, float* word) {
  HLITE_CHECK(state != nullptr && word != nullptr,
              "report_gradient_overflow has no state, or no word");
  if (exec.on_gpu()) return kernels::report_gradient_overflow(exec, state, word);
  *word = state->gradient_overflow != 0 ? 1.0f : 0.0f;
}

}  // namespace hlite::optimizer
