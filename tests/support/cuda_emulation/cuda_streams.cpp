// Streams, events, captures and graphs.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/runtime_state.h"

// How far each stream of a capture had got: its last piece of work that counts.
using Clock = std::map<const void*, int>;

struct EmulatedStream {
  hlite::emulation::StreamHandle queue;
};
struct EmulatedEvent {
  double ms = 0;
  hlite::emulation::StreamPoint point;
  int capture = 0;  // the number of the capture that it was recorded in; 0: none
  Clock clock;
};
struct EmulatedGraph {
  struct Node {
    std::function<void()> work;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
  unsigned launches = 0;
};

namespace hlite::emulation {
namespace {

// Owners of handles, so that a foreign or stale one is an error as on a device.
std::mutex mutex;
std::set<const void*> streams, events;

// The capture of the running thread.
struct Capture {
  const void* origin;
  int number;
  EmulatedGraph* graph;
  std::map<const void*, Clock> clocks;               // of the streams that take part
  std::map<const void*, std::vector<size_t>> nodes;  // of each: its work in order
};
thread_local std::unique_ptr<Capture> capture;
std::atomic<int> captures{0};

bool known(const std::set<const void*>& owners, const void* handle) {
  const std::lock_guard lock(mutex);
  return owners.contains(handle);
}

template <typename T>
cudaError_t create(T** handle, std::set<const void*>& owners, int& count) {
  if (const cudaError_t error = outcome(true); error != cudaSuccess) return error;
  *handle = new T;
  const std::lock_guard lock(mutex);
  owners.insert(*handle);
  ++count;
  return cudaSuccess;
}

template <typename T>
cudaError_t destroy(T* handle, std::set<const void*>& owners, int& count) {
  {
    const std::lock_guard lock(mutex);
    if (owners.erase(handle) == 0) return keep(cudaErrorInvalidResourceHandle);
    --count;
  }
  delete handle;
  return cudaSuccess;
}

}  // namespace

const StreamHandle& queue_of(cudaStream_t stream) {
  return stream ? stream->queue : StreamQueues::default_stream();
}

bool capturing() { return capture != nullptr; }

cudaError_t check_not_capturing() {
  return capture ? keep(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t check_stream(cudaStream_t stream) {
  return outcome(!stream || known(streams, stream), cudaErrorInvalidResourceHandle);
}

void submit(cudaStream_t stream, std::function<void()> work) {
  if (!capture || !capture->clocks.contains(stream))
    return StreamQueues::put(queue_of(stream), std::move(work), machine().late_streams);
  Clock& clock = capture->clocks[stream];
  EmulatedGraph::Node node{std::move(work), {}};
  for (const auto& [other, last] : clock)
    if (last > 0) node.after.push_back(capture->nodes[other][static_cast<size_t>(last - 1)]);
  auto& mine = capture->nodes[stream];
  mine.push_back(capture->graph->nodes.size());
  clock[stream] = static_cast<int>(mine.size());
  capture->graph->nodes.push_back(std::move(node));
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const cudaError_t error = create(stream, streams, machine().streams);
  if (error == cudaSuccess) (*stream)->queue = StreamQueues::add(flags != cudaStreamNonBlocking);
  return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (known(streams, stream)) StreamQueues::remove(stream->queue);
  return destroy(stream, streams, machine().streams);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  StreamQueues::finish(StreamQueues::end(queue_of(stream)));
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(nullptr); error != cudaSuccess) return error;
  StreamQueues::finish_all();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = capture && capture->clocks.contains(stream) ? cudaStreamCaptureStatusActive
                                                        : cudaStreamCaptureStatusNone;
  return check_stream(stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  ++machine().waits;
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  if (capture && event->capture == capture->number) {
    Clock& clock = capture->clocks[stream];  // the stream takes part from now on
    for (const auto& [other, last] : event->clock) clock[other] = std::max(clock[other], last);
  }
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  StreamQueues::hold_back(queue_of(stream), event->point);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return create(event, events, machine().events);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy(event, events, machine().events); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  event->ms = machine().clock_ms;
  const bool captured = capture && capture->clocks.contains(stream);
  event->capture = captured ? capture->number : 0;
  event->clock = captured ? capture->clocks[stream] : Clock();
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  event->point = captured ? StreamPoint() : StreamQueues::end(queue_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  const cudaError_t error = outcome(known(events, event), cudaErrorInvalidResourceHandle);
  if (error == cudaSuccess) StreamQueues::finish(event->point);
  return error;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (!known(events, start) || !known(events, end)) return keep(cudaErrorInvalidResourceHandle);
  *ms = static_cast<float>(end->ms - start->ms);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (capture || !stream) return keep(cudaErrorInvalidValue);
  capture = std::make_unique<Capture>(Capture{stream, ++captures, new EmulatedGraph, {}, {}});
  capture->clocks[stream];
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!capture || capture->origin != stream) return keep(cudaErrorInvalidValue);
  const std::unique_ptr<Capture> ended = std::move(capture);
  for (const auto& [other, work] : ended->nodes)
    if (ended->clocks[stream][other] != static_cast<int>(work.size())) {
      delete ended->graph;
      return keep(cudaErrorStreamCaptureUnjoined);
    }
  *graph = ended->graph;
  ++machine().graphs;
  return outcome(true);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new EmulatedGraph(*graph);
  ++machine().graphs;
  return outcome(true);
}
static void run_graph(EmulatedGraph& graph) {
  std::vector<int> waits_for(graph.nodes.size());
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    waits_for[i] = static_cast<int>(graph.nodes[i].after.size());
    for (const size_t before : graph.nodes[i].after) next[before].push_back(i);
    if (waits_for[i] == 0) ready.push_back(i);
  }
  std::minstd_rand random(++graph.launches);
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const size_t node = ready.back();
    ready.pop_back();
    graph.nodes[node].work();
    for (const size_t after : next[node])
      if (--waits_for[after] == 0) ready.push_back(after);
  }
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  submit(stream, [exec] { run_graph(*exec); });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  --machine().graphs;
  delete graph;
  return cudaSuccess;
}
// A device ends launches first.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  StreamQueues::finish_all();
  return cudaGraphDestroy(exec);
}
