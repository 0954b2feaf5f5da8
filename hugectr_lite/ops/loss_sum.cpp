#include "hugectr_lite/ops/loss_sum.h"

#include "hugectr_lite/core/error.h"

namespace hlite::ops {

void add_loss(const Exec& exec, const float* loss, int64_t samples, const int32_t* void_run,
              LossSum* sum) {
  HLITE_CHECK(loss && sum, "add_loss has no loss, or no sum");
  if (exec.on_gpu()) return kernels::add_loss(exec, loss, samples, void_run, sum);
  if (!void_run || *void_run == 0) add_batch(*sum, *loss, samples);
}

}  // namespace hlite::ops
