// Executor: runs plans. There is one for each way of doing it, and callers hold any of them:
//
//   SerialExecutor  one step after another, on the calling thread (CPU)
//   LaneExecutor    a thread for each lane (CPU; lane_executor.h)
//   DeviceExecutor  a stream for each lane, captured into graphs (GPU; device_executor.h)
//
// Results are the same bits on all that run on one kind of device.
#pragma once

#include "hugectr_lite/plan/plan.h"

namespace hlite::plan {

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs every step of the plan with `context`, but for its `exec`, which is the executor's. On a
  // CPU the run has ended when the call returns; on a GPU it has been issued.
  // Throws what a step throws.
  virtual void run(const Plan& plan, const StepContext& context) = 0;
  // The same for two plans that are a run together: the first one, with its copies, may run while
  // the run before does, if that was in two parts as well, and not before the one before that has
  // ended. The rest, of the same batch, is to be run next, or the first part again. What the first
  // leaves for the rest is of BufferKind::kAhead.
  virtual void run_first(const Plan& plan, const StepContext& context) { run(plan, context); }
  virtual void run_rest(const Plan& plan, const StepContext& context) { run(plan, context); }
  // Returns an Exec for what is to be known of a first part alone.
  [[nodiscard]] virtual Exec exec_of_first() const { return exec(); }
  // From now on adds to seconds[i] what step i of `plan` takes, whenever that is run. False where
  // steps cannot be timed: a GPU runs them as one.
  virtual bool measure(const Plan& /*plan*/, std::span<double> /*seconds*/) { return false; }
  // Returns an Exec for single ops, after all that was run.
  [[nodiscard]] virtual Exec exec() const = 0;
  // Waits until the batch of the last run may be overwritten in host memory.
  virtual void wait_for_input() {}
  // Makes what was put on exec() since the last run a part of it: the buffers of that run's inputs
  // stay as they are until it is done.
  virtual void extend_run() {}
  // Keeps nothing of runs so far that says where memory lies: some is about to move. REQUIRES that
  // they have ended.
  virtual void forget() {}
  // Waits for all that was run.
  virtual void synchronize() {}
};

class SerialExecutor final : public Executor {
 public:
  explicit SerialExecutor(const Exec& exec) : exec_(exec) {}
  void run(const Plan& plan, const StepContext& context) override {
    StepContext here = context;
    here.exec = exec_;
    run_in_order(plan, here, &plan == measured_ ? seconds_ : std::span<double>());
  }
  bool measure(const Plan& plan, std::span<double> seconds) override {
    measured_ = &plan;
    seconds_ = seconds;
    return true;
  }
  [[nodiscard]] Exec exec() const override { return exec_; }

 private:
  const Exec exec_;
  const Plan* measured_ = nullptr;
  std::span<double> seconds_;
};

}  // namespace hlite::plan
