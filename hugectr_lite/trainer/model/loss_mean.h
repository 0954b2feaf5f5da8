// LossMean: the mean loss of the training samples since it was last restarted, for the lines of a
// run. It is summed on the device, so that the host waits only when it shows one.
#pragma once

#include "hugectr_lite/trainer/model/run_status.h"

namespace hlite::trainer {

class LossMean {
 public:
  // `status`: null on one rank; must outlive it.
  explicit LossMean(const RunStatus* status) : status_(status) {}

  void declare(plan::Buffers& buffers);
  // The step "loss_mean", after everything that `loss` is made of. No step waits for it.
  void emit(plan::Plan& plan, plan::BufferId loss, plan::Lane lane) const;

  // NaN without a sample. On several ranks the same on all. Waits for a GPU, as does restart().
  [[nodiscard]] double value() const;
  void restart() const;

 private:
  const RunStatus* const status_;
  plan::Buffers* buffers_ = nullptr;
  plan::BufferId sum_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
