// Runs a plan on a GPU: a stream for each lane, events where a step waits for one of another lane,
// and, from the second run of a shape on, the whole plan as one captured graph, whose launch is all
// that the host does.
//
// Steps of Lane::kCopy stay outside the graph, because what they read differs from batch to batch:
// they run first, on their own stream, into one of two sets of input buffers (Buffers::side()), so
// that the next batch travels while the last one is worked on. A first part is a graph of its own,
// which is launched on a further stream.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/core/matmul_context.h"
#include "hugectr_lite/plan/executor.h"

namespace hlite::plan {

struct DeviceOptions {
  bool graphs = true;  // without them every run issues every step
  // At most so many graphs are kept, those that ran last: a server's batches have many shapes.
  size_t most_graphs = 64;
  // On several GPUs: called around a shape's first run and its capture, which take memory and load
  // code; returns when all ranks have called it.
  std::function<void()> rendezvous = {};
  // On several GPUs: waits for all that is on a stream, and for no longer than others may take.
  std::function<void(const Exec&)> wait = {};
  // Called in the handler of what a step has thrown, with its name; may throw something better.
  std::function<void(const std::string& step)> on_failure = {};
  // Options of the matrix products on the lanes kCompute and kWeights; nothing: no step multiplies
  // any.
  std::optional<MatmulOptions> matmul = {};
};

class DeviceExecutor final : public Executor {
 public:
  // On the device that is current. `buffers`: those of the plans that run() is given; must outlive
  // it. Throws DeviceError.
  DeviceExecutor(const cuda::Backend& table, Buffers& buffers, const DeviceOptions& options);
  ~DeviceExecutor() override;
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Runs with one plan, batch and mean_over() are of one shape. Throws DeviceError.
  void run(const Plan& plan, const StepContext& context) override;
  // Without graphs a first part waits for the run before.
  void run_first(const Plan& plan, const StepContext& context) override;
  void run_rest(const Plan& plan, const StepContext& context) override;
  [[nodiscard]] Exec exec_of_first() const override;
  // On the stream that all work of a run is ordered on.
  [[nodiscard]] Exec exec() const override { return exec_of(Lane::kCompute); }
  void wait_for_input() override;
  void extend_run() override {
    table_.event_record(done_[static_cast<size_t>(side_)], streams_[0]);
  }
  void forget() override;
  void synchronize() override;
  [[nodiscard]] size_t graphs() const { return captured_.size(); }

 private:
  using Key = std::tuple<const Plan*, int64_t /*batch*/, int64_t /*mean_over*/, int /*side*/>;
  [[nodiscard]] Exec exec_of(Lane lane) const;
  [[nodiscard]] void* stream() const { return streams_[0]; }
  void copy_in(const Plan& plan, const StepContext& context);
  void issue(const Plan& plan, StepContext context, bool copies);
  void run_step(const Step& step, const StepContext& context) const;
  // Runs the plan, but for its copies, in the order of `stream`: there its graph is launched.
  void run_on(void* stream, const Plan& plan, const StepContext& context);
  // Puts the plan on the streams, or makes and launches its graph.
  void issue_or_capture(const Key& key, const Plan& plan, const StepContext& context, void* to);
  void drop_oldest_graph();
  // Lets `next` wait for what is on `stream`; nothing if they are one.
  void let_wait(void* next, void* stream);
  [[nodiscard]] void* event(size_t step);

  const cuda::Backend& table_;
  Buffers& buffers_;
  std::array<MatmulContext, kLanes> matmuls_;
  const DeviceOptions options_;
  std::array<void*, kLanes> streams_{};
  void* first_stream_ = nullptr;  // of the graphs of first parts
  std::vector<void*> events_;     // [steps of the longest plan]
  void *copied_ = nullptr, *forked_ = nullptr, *passed_ = nullptr;
  std::array<void*, 2> done_{};  // the last run that read each side
  int side_ = 0;                 // of the last run
  bool in_parts_ = false;        // it was in two
  std::map<Key, bool> seen_;
  struct Graph {
    void* handle = nullptr;
    int64_t ran = 0;  // number of its last run
  };
  std::map<Key, Graph> captured_;
  int64_t runs_ = 0;
};

}  // namespace hlite::plan
