// Runs a plan with a thread for each lane, so that what the dependencies leave unordered overlaps:
// an exchange that waits for the network overlaps the matrix products. A lane runs its steps in
// plan order; a step starts when the steps named in its `after` have ended. Results are those of
// SerialExecutor, bit for bit: a plan's steps share nothing that is not ordered.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/plan/executor.h"

namespace hlite::plan {

class LaneExecutor final : public Executor {
 public:
  // `compute`: where the compute lane runs. The embedding lane gets a thread pool of its own with
  // as many threads, the others one of one thread: a pool serves one caller at a time.
  // `on_failure` is called in the handler of what a step threw, before run() can return: it must
  // end what steps of other lanes may be waiting for (Communicator::abort()).
  explicit LaneExecutor(const Exec& compute, std::function<void()> on_failure = {});
  ~LaneExecutor() override;
  LaneExecutor(const LaneExecutor&) = delete;
  LaneExecutor& operator=(const LaneExecutor&) = delete;

  // Returns when every step has ended; the first exception that a step threw is rethrown, and steps
  // that had not started by then are left out. The compute lane is the calling thread. Allocates
  // only when `plan` is longer than any before.
  void run(const Plan& plan, const StepContext& context) override;
  // The time that a step waits for others is not counted.
  bool measure(const Plan& plan, std::span<double> seconds) override {
    measured_ = &plan;
    seconds_ = seconds;
    return true;
  }
  [[nodiscard]] Exec exec() const override { return execs_[0]; }

 private:
  void work(int lane);
  void run_lane(int lane);
  void wait_for(size_t step) const;
  void fail(std::exception_ptr error);

  std::array<std::unique_ptr<ThreadPool>, kLanes> pools_;  // of the lanes after the first
  std::array<Exec, kLanes> execs_;
  const std::function<void()> on_failure_;
  const Plan* measured_ = nullptr;
  std::span<double> seconds_;

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
