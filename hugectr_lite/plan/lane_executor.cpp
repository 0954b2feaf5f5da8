#include "hugectr_lite/plan/lane_executor.h"

#include "hugectr_lite/core/stopwatch.h"

namespace hlite::plan {

static_assert(static_cast<int>(Lane::kCompute) == 0 && static_cast<int>(Lane::kCopy) == kLanes - 1);

LaneExecutor::LaneExecutor(const Exec& compute, std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)) {
  execs_[0] = compute;
  for (size_t lane = 1; lane < pools_.size(); ++lane) {
    const bool embedding = lane == static_cast<size_t>(Lane::kEmbedding);
    pools_[lane] = std::make_unique<ThreadPool>(embedding ? compute.threads().threads() : 1);
    execs_[lane] = {.device = Device::kCpu, .pool = pools_[lane].get()};
  }
  for (int lane = 1; lane < kLanes; ++lane) threads_.emplace_back([this, lane] { work(lane); });
}

LaneExecutor::~LaneExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneExecutor::run(const Plan& plan, const StepContext& context) {
  if (plan.steps().size() > capacity_) {
    capacity_ = plan.steps().size();
    done_ = std::make_unique<std::atomic<uint64_t>[]>(capacity_);
  }
  plan_ = &plan;
  context_ = context;
  failed_ = false;
  error_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    busy_ = kLanes - 1;
  }
  wake_.notify_all();
  run_lane(0);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void LaneExecutor::work(int lane) {
  for (uint64_t seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
    }
    run_lane(lane);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) idle_.notify_one();
  }
}

void LaneExecutor::run_lane(int lane) {
  const auto steps = plan_->steps();
  StepContext context = context_;
  context.exec = execs_[static_cast<size_t>(lane)];
  for (size_t i = 0; i < steps.size(); ++i) {
    if (static_cast<int>(steps[i].lane) != lane) continue;
    for (const int earlier : steps[i].after)
      if (static_cast<int>(steps[static_cast<size_t>(earlier)].lane) != lane)
        wait_for(static_cast<size_t>(earlier));
    // After a failure steps count as ended without having run, so that no lane waits for ever.
    if (!failed_.load(std::memory_order_acquire)) {
      try {
        const auto start = Clock::now();
        run_step(steps[i], context);
        if (plan_ == measured_) seconds_[i] += seconds_since(start);
      } catch (...) {
        fail(std::current_exception());
      }
    }
    done_[i].store(generation_, std::memory_order_release);
    done_[i].notify_all();
  }
}

void LaneExecutor::wait_for(size_t step) const {
  for (;;) {
    const uint64_t ended = done_[step].load(std::memory_order_acquire);
    if (ended == generation_) return;
    done_[step].wait(ended, std::memory_order_acquire);
  }
}

void LaneExecutor::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    error_ = error;
    failed_.store(true, std::memory_order_release);
  }
  if (on_failure_) on_failure_();
}

}  // namespace hlite::plan
