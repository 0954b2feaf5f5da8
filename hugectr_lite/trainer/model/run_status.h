// RunStatus: conditions of a run that all ranks must know. If an exchange exceeded its capacity,
// the run is repeated. If a rank has a stop request, all stop. If gradients overflowed on any rank,
// all skip the update. The loss, stop request and gradient overflow are floats that travel with the
// dense gradients (dense_all_reduce.h), so they cost no message of their own.
//
// The host of a GPU does not wait for a run to complete. After the first exchanges it gets a
// notice: whether all lists fit, so that it may issue the next run, and the stop requests of the
// run before. Where keys are exchanged ahead, the notice ends that part of a run; it is of the run
// two before, and has its own flag.
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
  // Number of floats that travel with the dense gradients: loss, stop request, gradient overflow.
  static constexpr int64_t kWords = 3;

  // `stop_request` returns true if this rank is to stop; it may be empty. `gpu`: null on the CPU.
  RunStatus(comm::RankContext ranks, std::function<bool()> stop_request, const cuda::Backend* gpu);

  void declare(plan::Buffers& buffers, bool keys_ahead);
  // `words`: the buffer of kWords floats that is summed with the dense gradients.
  void set_words(plan::Buffers& buffers, plan::BufferId words);

  // int32, for embedding::TablesIo::capacity_exceeded: not 0 if an exchange exceeded its capacity.
  [[nodiscard]] plan::BufferId capacity_exceeded() const { return capacity_exceeded_; }
  // float, on GPUs. Before the words are summed: 1 if this rank's gradients overflowed. After: the
  // number of ranks whose gradients overflowed.
  [[nodiscard]] plan::BufferId gradient_overflow() const { return gradient_overflow_; }
  // float: the number of ranks that had a stop request in the last iteration. kNoBuffer on the CPU.
  [[nodiscard]] plan::BufferId stop() const { return stop_; }

  // Adds the step "notice" if the ranks are GPUs. It is on the lane of the lookups' exchanges, so
  // it runs after them.
  void emit_notice(plan::Plan& plan);
  // Writes this rank's loss and stop request to the words, before they are summed.
  void put(const Exec& exec, const float* loss) const;
  // Reads the sums over ranks from the words: *loss and, on GPUs, stop().
  void take(const Exec& exec, float* loss) const;

  // Must be called before each run of a plan.
  void begin_run();
  // Returns true if an exchange of the last run exceeded its capacity, so that the run must be
  // repeated. `check` is then called first, before the ranks synchronize; it may throw, for example
  // if a table of this rank is full. On GPUs it waits for the run's notice; `exec`: the executor's,
  // which the notice is in the order of.
  // Collective. Throws CommError if a rank has failed, DeviceError if the device has.
  [[nodiscard]] bool check_capacity(const Exec& exec, const std::function<void()>& check);
  void clear_capacity_exceeded() const { buffers_->set_value<int32_t>(capacity_exceeded_, 0); }
  // Returns true if any rank had a stop request in the last run; on GPUs, in the run before it, or
  // before that where keys are exchanged ahead.
  [[nodiscard]] bool stop_requested() const;

 private:
  struct Notices {
    DeviceMemory runs;                    // uint64: runs that have given their notice
    PinnedValue<kernels::Notice> notice;  // the latest
    PinnedValue<float> stop;              // 1 if this rank has a stop request
    uint64_t issued = 0;                  // runs begun by the host
  };
  const kernels::Notice& wait_for_notice(const Exec& exec, const std::function<void()>& check);

  const comm::RankContext ranks_;
  const std::function<bool()> stop_request_;
  const cuda::Backend* const gpu_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId capacity_exceeded_ = plan::kNoBuffer, gradient_overflow_ = plan::kNoBuffer,
                 stop_ = plan::kNoBuffer, words_ = plan::kNoBuffer;
  std::unique_ptr<Notices> notices_;  // on GPUs
  bool stop_requested_ = false;       // on GPUs, as the last notice says
};

}  // namespace hlite::trainer
