// RunNotices: what a run on one of several GPUs tells its host while it goes on, behind the first
// exchanges: whether all lists fit, so that the next run may be issued, and whether any rank wanted
// to stop in the training iteration before. All ranks are told the same.
#pragma once

#include <functional>

#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::trainer {

class RunNotices {
 public:
  RunNotices(const comm::RankContext& ranks, const cuda::Backend& gpu);

  // Puts a notice behind what `exec` was given; once in every run. Both lie in device memory.
  void notify(const Exec& exec, const int32_t* overflow, const float* wish);
  // Before a run is issued. `wish`: of this rank, for wish().
  void begin_run(bool wish);
  // Waits for the notice of the run that was issued last; `exec`: what all of it is ordered on.
  // `look`: called before the ranks meet where the run counts for nothing, as far as this rank
  // knows. Collective. Throws CommError when a rank has failed, DeviceError when the device has.
  const kernels::Notice& wait(const Exec& exec, const std::function<void()>& look);
  // In page-locked memory: what begin_run() was told.
  [[nodiscard]] const float* wish() const { return wish_.get(); }

 private:
  const comm::RankContext ranks_;
  DeviceMemory runs_;
  PinnedValue<kernels::Notice> notice_;
  PinnedValue<float> wish_;
  uint64_t issued_ = 0;
};

}  // namespace hlite::trainer
