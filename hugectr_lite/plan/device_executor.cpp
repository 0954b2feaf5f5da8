#include "hugectr_lite/plan/device_executor.h"

#include <algorithm>

#include "hugectr_lite/core/urgent_stream.h"

namespace hlite::plan {
namespace {
size_t index_of(Lane lane) { return static_cast<size_t>(lane); }
bool is_copy(const Step& step) { return step.lane == Lane::kCopy; }
// What other ranks or the next batch wait for comes first, gradients of weights last: only the
// update at the end of the run waits for them.
int urgency_of(Lane lane) {
  switch (lane) {
    case Lane::kComm:
    case Lane::kCopy:
      return 2;
    case Lane::kCompute:
    case Lane::kEmbedding:
      return 1;
    default:
      return 0;
  }
}
}  // namespace

DeviceExecutor::DeviceExecutor(const cuda::Backend& table, Buffers& buffers,
                               const DeviceOptions& options)
    : table_(table), buffers_(buffers), options_(options) {
  if (options.matmul)
    for (const Lane lane : {Lane::kCompute, Lane::kWeights})
      matmuls_[index_of(lane)] = MatmulContext(table, *options.matmul);
  for (size_t lane = 0; lane < streams_.size(); ++lane)
    kernels::create_urgent_stream(exec_of(Lane::kCompute), &streams_[lane],
                                  urgency_of(static_cast<Lane>(lane)));
  kernels::create_urgent_stream(exec_of(Lane::kCompute), &first_stream_,
                                urgency_of(Lane::kEmbedding));
  for (void** const event : {&copied_, &forked_, &passed_}) table_.event_create(event);
  for (void*& event : done_) {
    table_.event_create(&event);
    table_.event_record(event, stream());
  }
}

// A destructor cannot report errors.
DeviceExecutor::~DeviceExecutor() {
  cuda::Failure ignored;
  std::vector<void*> streams(streams_.begin(), streams_.end());
  streams.push_back(first_stream_);
  for (void* stream : streams)
    if (stream) (void)table_.stream_synchronize.entry(&ignored, stream);
  for (const auto& [key, graph] : captured_)
    (void)table_.graph_destroy.entry(&ignored, graph.handle);
  for (void* event : events_) (void)table_.event_destroy.entry(&ignored, event);
  for (void* event : {copied_, forked_, passed_, done_[0], done_[1]})
    if (event) (void)table_.event_destroy.entry(&ignored, event);
  for (void* stream : streams)
    if (stream) (void)table_.stream_destroy.entry(&ignored, stream);
}

Exec DeviceExecutor::exec_of(Lane lane) const {
  return {.device = Device::kCuda,
          .cuda = &table_,
          .stream = streams_[index_of(lane)],
          .matmul = matmuls_[index_of(lane)].get()};
}

Exec DeviceExecutor::exec_of_first() const {
  Exec exec = exec_of(Lane::kCompute);
  exec.stream = first_stream_;
  return exec;
}

void* DeviceExecutor::event(size_t step) {
  while (events_.size() <= step) {
    events_.push_back(nullptr);
    table_.event_create(&events_.back());
  }
  return events_[step];
}

// Puts the plan's copies, or everything else, on the streams of their lanes.
void DeviceExecutor::issue(const Plan& plan, StepContext context, bool copies) {
  const auto steps = plan.steps();
  if (!copies) {  // other lanes begin when this run does
    table_.event_record(forked_, stream());
    for (size_t lane = 1; lane < streams_.size(); ++lane)
      if (lane != index_of(Lane::kCopy)) table_.stream_wait_event(streams_[lane], forked_);
  }
  // Only steps that another lane waits for need an event.
  std::vector<bool> awaited(steps.size(), false);
  for (const Step& step : steps)
    for (const int before : step.after)
      if (steps[static_cast<size_t>(before)].lane != step.lane)
        awaited[static_cast<size_t>(before)] = true;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (is_copy(steps[i]) != copies) continue;
    void* const lane = streams_[index_of(steps[i].lane)];
    for (const int before : steps[i].after) {
      const Step& other = steps[static_cast<size_t>(before)];
      if (other.lane != steps[i].lane && !is_copy(other))
        table_.stream_wait_event(lane, event(static_cast<size_t>(before)));
    }
    context.exec = exec_of(steps[i].lane);
    run_step(steps[i], context);
    if (awaited[i] && !copies) table_.event_record(event(i), lane);
  }
  if (copies) return;
  // The run has ended when every lane has.
  for (size_t lane = 1; lane < streams_.size(); ++lane) {
    if (lane == index_of(Lane::kCopy)) continue;
    void* const end = event(steps.size() + lane);
    table_.event_record(end, streams_[lane]);
    table_.stream_wait_event(stream(), end);
  }
}

// Neither a batch's work before it is there, nor the batch before that work with it is done.
void DeviceExecutor::copy_in(const Plan& plan, const StepContext& context) {
  side_ = buffers_.flip();
  void* const copies = streams_[index_of(Lane::kCopy)];
  table_.stream_wait_event(copies, done_[static_cast<size_t>(side_)]);
  issue(plan, context, /*copies=*/true);
  table_.event_record(copied_, copies);
}

void DeviceExecutor::run(const Plan& plan, const StepContext& context) {
  copy_in(plan, context);
  table_.stream_wait_event(stream(), copied_);
  run_on(stream(), plan, context);
  in_parts_ = false;
  extend_run();
}

void DeviceExecutor::run_first(const Plan& plan, const StepContext& context) {
  copy_in(plan, context);
  table_.stream_wait_event(first_stream_, copied_);
  if (!in_parts_) let_wait(first_stream_, stream());
  run_on(first_stream_, plan, context);
}

void DeviceExecutor::run_rest(const Plan& plan, const StepContext& context) {
  let_wait(stream(), first_stream_);
  run_on(stream(), plan, context);
  in_parts_ = true;
  extend_run();
}

void DeviceExecutor::let_wait(void* next, void* stream) {
  if (next == stream) return;
  table_.event_record(passed_, stream);
  table_.stream_wait_event(next, passed_);
}

void DeviceExecutor::run_on(void* stream, const Plan& plan, const StepContext& context) {
  const Key key{&plan, context.batch, context.mean_over(), side_};
  const auto captured = captured_.find(key);
  ++runs_;
  if (captured == captured_.end()) return issue_or_capture(key, plan, context, stream);
  captured->second.ran = runs_;
  table_.graph_launch(captured->second.handle, stream);
}

void DeviceExecutor::issue_or_capture(const Key& key, const Plan& plan, const StepContext& context,
                                      void* to) {
  const bool first = !std::exchange(seen_[key], true);
  const auto issue_all = [&] {
    let_wait(stream(), to);
    issue(plan, context, /*copies=*/false);
    let_wait(to, stream());
  };
  if (!first && !options_.graphs) return issue_all();
  const auto rendezvous = [&] {
    if (options_.rendezvous) options_.rendezvous();
  };
  rendezvous();
  if (first) {
    // It also searches algorithms and takes scratch memory, which no capture may.
    issue_all();
    return rendezvous();
  }
  if (captured_.size() >= options_.most_graphs) drop_oldest_graph();
  void* graph = nullptr;
  table_.capture_begin(stream());
  try {
    issue(plan, context, /*copies=*/false);
  } catch (...) {
    cuda::Failure ignored;
    (void)table_.capture_end.entry(&ignored, stream(), &graph);
    if (graph) (void)table_.graph_destroy.entry(&ignored, graph);
    throw;
  }
  table_.capture_end(stream(), &graph);
  captured_[key] = {graph, runs_};
  rendezvous();
  table_.graph_launch(graph, to);
}

// Of the same shape on all ranks.
void DeviceExecutor::drop_oldest_graph() {
  const auto oldest =
      std::min_element(captured_.begin(), captured_.end(),
                       [](const auto& a, const auto& b) { return a.second.ran < b.second.ran; });
  table_.stream_synchronize(stream());
  table_.graph_destroy(oldest->second.handle);
  captured_.erase(oldest);
}

void DeviceExecutor::run_step(const Step& step, const StepContext& context) const {
  try {
    plan::run_step(step, context);
  } catch (...) {
    if (options_.on_failure) options_.on_failure(step.name);
    throw;
  }
}

void DeviceExecutor::forget() {
  for (const auto& [key, graph] : captured_) table_.graph_destroy(graph.handle);
  captured_.clear();
  seen_.clear();
}

void DeviceExecutor::wait_for_input() {
  if (options_.wait) options_.wait(exec_of(Lane::kCopy));
  table_.event_synchronize(copied_);
}

void DeviceExecutor::synchronize() {
  for (size_t lane = 0; lane < streams_.size(); ++lane) {
    if (options_.wait) options_.wait(exec_of(static_cast<Lane>(lane)));
    table_.stream_synchronize(streams_[lane]);
  }
  if (options_.wait) options_.wait(exec_of_first());
  table_.stream_synchronize(first_stream_);
}

}  // namespace hlite::plan
