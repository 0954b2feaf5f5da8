// Runs a plan with a thread for each lane, so that what the dependencies leave unordered overlaps:
// an exchange that waits for the network beside the matrix products. A lane runs its steps in plan
// order; a step starts when the steps named in its `after` have ended. Results are those of
// run_in_order(), bit for bit: a plan's steps share nothing that is not ordered.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hugectr_lite/plan/plan.h"

namespace hlite::plan {

inline constexpr int kLanes = 5;

class LaneExecutor {
 public:
  // `execs[lane]`: where that lane's steps run. A thread pool serves one caller at a time, so no
  // two lanes may share one. `on_failure` is called in the handler of what a step threw, before
  // run() can return: it must end what steps of other lanes may be waiting for
  // (Communicator::abort()).
  explicit LaneExecutor(const std::array<Exec, kLanes>& execs,
                        std::function<void()> on_failure = {});
  ~LaneExecutor();
  LaneExecutor(const LaneExecutor&) = delete;
  LaneExecutor& operator=(const LaneExecutor&) = delete;

  // Returns when every step has ended; the first exception that a step threw is rethrown, and steps
  // that had not started by then are left out. The compute lane is the calling thread.
  // `context.exec` is replaced by each lane's own. Allocates only when `plan` is longer than any
  // before.
  void run(const Plan& plan, const StepContext& context);

 private:
  void work(int lane);
  void run_lane(int lane);
  void wait_for(size_t step) const;
  void fail(std::exception_ptr error);

  const std::array<Exec, kLanes> execs_;
  const std::function<void()> on_failure_;

  // The run at hand, set before generation_ is raised.
  const Plan* plan_ = nullptr;
  StepContext context_;
  std::unique_ptr<std::atomic<uint64_t>[]> done_;  // [steps] the last run in which it has ended
  size_t capacity_ = 0;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // of the lanes after the first
};

}  // namespace hlite::plan
