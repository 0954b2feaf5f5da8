// Runs a plan on a GPU: a stream for each lane, events where a step waits for one of another lane,
// and, from the second run of a shape on, the whole plan as one captured graph, whose launch is all
// that the host does.
//
// Steps of Lane::kCopy stay outside the graph, because what they read differs from batch to batch:
// they run first, on their own stream, into one of two sets of input buffers (Buffers::side()), so
// that the next batch travels while the last one is worked on.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/plan/lane_executor.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::plan {

class DeviceExecutor {
 public:
  // `buffers`: those of the plans that run() is given. `matmuls[lane]`: Exec::matmul of its steps;
  // null where a lane multiplies no matrices. Without `graphs` every run issues every step.
  DeviceExecutor(const cuda::Backend& table, Buffers& buffers,
                 const std::array<void*, kLanes>& matmuls, bool graphs);
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Issues one run of `plan` and returns; context.exec is replaced. Throws DeviceError.
  // `shape`: whatever else than plan and batch the steps' work depends on.
  void run(const Plan& plan, const StepContext& context, int64_t shape = 0);
  // Makes what was put on stream() since the last run a part of it: that run's inputs stay as they
  // are until it is done.
  void extend_run() { table_.event_record(done_[static_cast<size_t>(side_)], stream()); }
  // Waits until the copies of the last run have left the host's memory.
  void wait_for_copies();
  // Waits for everything.
  void synchronize();
  // The stream that all work of a run is ordered on.
  [[nodiscard]] void* stream() const { return streams_[0]; }
  [[nodiscard]] size_t graphs() const { return captured_.size(); }

 private:
  using Key = std::tuple<const Plan*, int64_t /*batch*/, int64_t /*shape*/, int /*side*/>;
  void issue(const Plan& plan, StepContext context, bool copies);
  [[nodiscard]] void* event(size_t step);

  const cuda::Backend& table_;
  Buffers& buffers_;
  const std::array<void*, kLanes> matmuls_;
  const bool graphs_;
  std::array<void*, kLanes> streams_{};
  std::vector<void*> events_;  // [steps of the longest plan]
  void *copied_ = nullptr, *forked_ = nullptr;
  std::array<void*, 2> done_{};  // the last run that read each side
  int side_ = 0;                 // of the last run
  std::map<Key, bool> seen_;
  std::map<Key, void*> captured_;
};

}  // namespace hlite::plan
