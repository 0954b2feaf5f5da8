#include "hugectr_lite/optimizer/loss_scale.h"

#include "hugectr_lite/core/error.h"

namespace hlite::optimizer {

void update_loss_scale(const Exec& exec, int32_t grow_after, LossScale* state) {
  HLITE_CHECK(grow_after >= 1, "update_loss_scale: grow after {} iterations", grow_after);
  HLITE_CHECK(state != nullptr, "update_loss_scale has no state");
  if (exec.on_gpu()) return kernels::update_loss_scale(exec, grow_after, state);
  *state = next_loss_scale(*state, grow_after);
}

}  // namespace hlite::optimizer
