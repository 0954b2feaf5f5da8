// RunStatus: the state of a run that all ranks share: an exchange that exceeded its capacity, so
// that the run is repeated; a stop request of any rank; gradient overflow on any rank. The loss,
// the stop request and the gradient overflow are floats that travel with the dense gradients
// (dense_all_reduce.h), so they cost no message of their own.
//
// The host of a GPU does not wait for a run. A notice, given after the first exchanges, reports
// whether all lists fit, so that the next run may be issued, and the stop requests of the run
// before.
#pragma once

#include <functional>
#include <memory>

#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

class RunStatus {
 public:
  // Floats that travel with the dense gradients: see put().
  static constexpr int64_t kWords = 3;

  // `stop_request`: returns true if this rank shall stop. `gpu`: null on the CPU.
  RunStatus(comm::RankContext ranks, std::function<bool()> stop_request, const cuda::Backend* gpu);

  void declare(plan::Buffers& buffers);
  // `words`: where the floats travel, kWords of them.
  void set_words(plan::Buffers& buffers, plan::BufferId words);

  // int32: embedding::TablesIo::capacity_exceeded.
  [[nodiscard]] plan::BufferId capacity_exceeded() const { return capacity_exceeded_; }
  // float, on GPUs: 1 if gradients of this rank have overflowed, before the words are summed; after
  // the sum the number of such ranks.
  [[nodiscard]] plan::BufferId gradient_overflow() const { return gradient_overflow_; }
  // On GPUs: the sum of the stop requests of the last iteration; else kNoBuffer.
  [[nodiscard]] plan::BufferId stop() const { return stop_; }

  // Adds the step "notice" where the ranks are GPUs. It shares the lane of the lookups' exchanges.
  void emit_notice(plan::Plan& plan);
  // Before the words are summed: puts this rank's loss and stop request into them. After: the loss
  // is the sum over ranks.
  void put(const Exec& exec, const float* loss) const;
  void take(const Exec& exec, float* loss) const;

  // Before each run of a plan.
  void begin_run();
  // Returns true if an exchange of the last run exceeded its capacity. GPUs wait for its notice;
  // `exec` is the executor's. `check` is called, and may throw, before the ranks synchronize if the
  // run counts for nothing, which may also be for a full table of this rank. Collective. Throws
  // CommError when a rank has failed, DeviceError when the device has.
  [[nodiscard]] bool check_capacity(const Exec& exec, const std::function<void()>& check);
  void clear_capacity_exceeded() const { buffers_->set_value<int32_t>(capacity_exceeded_, 0); }
  // Returns true if any rank had a stop request when the steps ran last; on GPUs, one run earlier.
  [[nodiscard]] bool stop_requested() const;

 private:
  struct Notices {  // in memory of the device, and page-locked
    DeviceMemory runs;
    PinnedValue<kernels::Notice> notice;
    PinnedValue<float> stop;  // this rank's request
    uint64_t issued = 0;      // runs
  };
  const kernels::Notice& wait_for_notice(const Exec& exec, const std::function<void()>& check);

  const comm::RankContext ranks_;
  const std::function<bool()> stop_request_;
  const cuda::Backend* const gpu_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId capacity_exceeded_ = plan::kNoBuffer, gradient_overflow_ = plan::kNoBuffer,
                 stop_ = plan::kNoBuffer, words_ = plan::kNoBuffer;
  std::unique_ptr<Notices> notices_;  // on GPUs
  bool stop_requested_ = false;       // on GPUs, by the last notice
};

}  // namespace hlite::trainer
