// Sum of the losses of several batches, kept on the device: a host that shows a mean now and then
// never waits for the batches between.
#pragma once

#include <cstdint>
#include <limits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/ops/non_finite.h"

namespace hlite::ops {

struct LossSum {
  double sum = 0;       // mean losses, each times the samples of its batch
  int64_t samples = 0;  // in these batches

  // NaN without samples.
  [[nodiscard]] double mean() const {
    return samples > 0 ? sum / static_cast<double>(samples)
                       : std::numeric_limits<double>::quiet_NaN();
  }
};

// One batch more. A loss that is NaN or infinite is left out: an iteration whose update is skipped
// may have one, and weights that are not finite end the run by themselves.
HLITE_HD inline void add_batch(LossSum& sum, float loss, int64_t samples) {
  if (non_finite(loss)) return;
  sum.sum += static_cast<double>(loss) * static_cast<double>(samples);
  sum.samples += samples;
}

// add_batch(*sum, *loss, samples), all in memory of the op's device; nothing if *void_run, which
// may be null, is not 0.
void add_loss(const Exec& exec, const float* loss, int64_t samples, const int32_t* void_run,
              LossSum* sum);

namespace kernels {
inline const KernelOf<decltype(ops::add_loss)> add_loss{"add_loss"};
}  // namespace kernels

}  // namespace hlite::ops
