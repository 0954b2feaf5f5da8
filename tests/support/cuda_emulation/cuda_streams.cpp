// Streams, events, captures and graphs.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/cuda_runtime_api.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/cuda_emulation/runtime_state.h"
#include "tests/support/cuda_emulation/signals.h"

// For each stream of a capture, its last piece of work.
using Clock = std::map<const void*, int>;

struct EmulatedStream {
  hlite::emulation::StreamHandle queue;
  int priority = 0;
};
struct EmulatedEvent {
  int device = 0;
  bool timed = true;
  double ms = 0;
  hlite::emulation::StreamPoint point;
  int capture = 0;  // the number of the capture that it was recorded in; 0: none
  Clock clock;
};
struct EmulatedGraph {
  std::shared_ptr<hlite::emulation::PieceGraph> work =
      std::make_shared<hlite::emulation::PieceGraph>();
  bool uploaded = false;
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
  struct LeftOut {
    cudaStream_t stream;
    Clock clock;
    int number;
  };
  std::vector<LeftOut> left_out;  // waits of streams that have had no work since
  // Before `next` comes to the stream.
  void judge_left_out(cudaStream_t stream, const char* next);
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

void Capture::judge_left_out(cudaStream_t stream, const char* next) {
  std::erase_if(left_out, [&](const LeftOut& missing) {
    if (missing.stream != stream) return false;
    const auto& has = clocks[stream];
    bool implied = true;
    std::string later;
    for (const auto& [other, last] : missing.clock) {
      const auto at = has.find(other);
      if (last == 0 || (at != has.end() && at->second >= last)) continue;
      implied = false;
      const size_t piece = nodes[other][static_cast<size_t>(last - 1)];
      later += std::string(later.empty() ? "" : ", ") + graph->work->pieces[piece].name;
    }
    note_left_out(fmt::format("left out: wait {} of device {}, in a graph of {} for {}: {}",
                              missing.number, device_of(stream), next,
                              implied ? "what it waits for" : later,
                              implied ? "implied" : "not implied"));
    return true;
  });
}

void count_graphs(int more) {
  const std::lock_guard lock(mutex);
  machine().graphs += more;
}

}  // namespace

StreamHandle queue_of(cudaStream_t stream) {
  return stream ? stream->queue : StreamQueues::default_stream(current_device());
}

int device_of(cudaStream_t stream) {
  return stream ? StreamQueues::device_of(stream->queue) : current_device();
}

bool capturing() { return capture != nullptr; }

cudaError_t check_not_capturing() {
  return capture ? keep(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t check_stream(cudaStream_t stream) {
  const cudaError_t error =
      outcome(!stream || known(streams, stream), cudaErrorInvalidResourceHandle);
  return error == cudaSuccess ? check_works(device_of(stream)) : error;
}

cudaError_t check_works(int device) {
  return broken(device) ? keep(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t check_own_stream(cudaStream_t stream) {
  const cudaError_t error = check_stream(stream);
  if (error != cudaSuccess || device_of(stream) == current_device()) return error;
  return keep(cudaErrorInvalidResourceHandle);
}

void submit(cudaStream_t stream, std::function<void()> work, const char* name) {
  const int device = device_of(stream);
  if (strikes(Planted::What::kLeftOut, device, name)) return;
  if (strikes(Planted::What::kFailsRunning, device, name))
    work = [device] { break_device(device); };
  if (strikes(Planted::What::kLeftOut, device, (std::string(name) + "/waits").c_str()))
    work = [whole = std::move(work)] {
      const LackingWaits lacking;
      whole();
    };
  Piece piece{std::move(work), name, device_of(stream)};
  if (!capture || !capture->clocks.contains(stream))
    return StreamQueues::put(queue_of(stream), std::move(piece));
  capture->judge_left_out(stream, name);
  Clock& clock = capture->clocks[stream];
  PieceGraph& graph = *capture->graph->work;
  const size_t number = graph.pieces.size();
  graph.before.push_back(0);
  graph.next.emplace_back();
  for (const auto& [other, last] : clock)
    if (last > 0) {
      graph.next[capture->nodes[other][static_cast<size_t>(last - 1)]].push_back(number);
      ++graph.before.back();
    }
  auto& mine = capture->nodes[stream];
  mine.push_back(number);
  clock[stream] = static_cast<int>(mine.size());
  graph.pieces.push_back(std::move(piece));
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
// As of an H200.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}
// Order here is Machine::order's.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (priority > kLeastPriority || priority < kGreatestPriority) return keep(cudaErrorInvalidValue);
  const cudaError_t error = create(stream, streams, machine().streams);
  if (error != cudaSuccess) return error;
  (*stream)->queue = StreamQueues::add(current_device(), flags != cudaStreamNonBlocking);
  (*stream)->priority = priority;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  *priority = stream ? stream->priority : kLeastPriority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (known(streams, stream)) StreamQueues::remove(stream->queue);
  return destroy(stream, streams, machine().streams);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  StreamQueues::finish(StreamQueues::end(queue_of(stream)));
  return check_works(device_of(stream));
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(nullptr); error != cudaSuccess) return error;
  StreamQueues::finish_device(current_device());
  return check_works(current_device());
}
static cudaError_t query(const StreamPoint& point, int device) {
  const bool done = StreamQueues::query(point);
  if (broken(device)) return keep(cudaErrorLaunchFailure);
  return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  const cudaError_t error = check_stream(stream);
  return error != cudaSuccess ? error
                              : query(StreamQueues::end(queue_of(stream)), device_of(stream));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = capture && capture->clocks.contains(stream) ? cudaStreamCaptureStatusActive
                                                        : cudaStreamCaptureStatusNone;
  return check_stream(stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto held = StreamQueues::lock();
  ++machine().waits;
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  const bool recorded = event->capture != 0 || event->point.queue;
  if (recorded && strikes(Planted::What::kLeftOut, device_of(stream), "wait")) {
    if (capture && event->capture == capture->number)
      capture->left_out.push_back({stream, event->clock, counted()});
    else
      StreamQueues::leave_out(queue_of(stream), event->point, counted());
    return cudaSuccess;
  }
  if (capture && event->capture == capture->number) {
    Clock& clock = capture->clocks[stream];  // the stream takes part from now on
    for (const auto& [other, last] : event->clock) clock[other] = std::max(clock[other], last);
  } else if (recorded && capture && capture->clocks.contains(stream)) {
    return keep(cudaErrorStreamCaptureIsolation);  // of outside of this capture
  } else if (event->capture != 0) {
    return keep(cudaErrorCapturedEvent);
  }
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  StreamQueues::hold_back(queue_of(stream), event->point);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const cudaError_t error = create(event, events, machine().events);
  if (error != cudaSuccess) return error;
  (*event)->device = current_device();
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy(event, events, machine().events); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto held = StreamQueues::lock();
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  event->ms = machine().clock_ms;
  const bool captured = capture && capture->clocks.contains(stream);
  if (captured) capture->judge_left_out(stream, "an event");
  event->capture = captured ? capture->number : 0;
  event->clock = captured ? capture->clocks[stream] : Clock();
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (device_of(stream) != event->device) return keep(cudaErrorInvalidResourceHandle);
  event->point = captured ? StreamPoint() : StreamQueues::end(queue_of(stream));
  return cudaSuccess;
}
// Finds the point of an event, or returns the error of a host call that may not use it.
static cudaError_t point_of(cudaEvent_t event, StreamPoint& point) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  const cudaError_t error = outcome(known(events, event), cudaErrorInvalidResourceHandle);
  if (error != cudaSuccess) return error;
  const auto held = StreamQueues::lock();
  if (event->capture != 0) return keep(cudaErrorCapturedEvent);
  point = event->point;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  StreamPoint point;
  const cudaError_t error = point_of(event, point);
  if (error != cudaSuccess) return error;
  if (strikes(Planted::What::kLeftOut, event->device, "host wait")) return cudaSuccess;
  StreamQueues::finish(point);
  return check_works(event->device);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  StreamPoint point;
  const cudaError_t error = point_of(event, point);
  return error != cudaSuccess ? error : query(point, event->device);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (!known(events, start) || !known(events, end) || start->device != end->device ||
      !start->timed || !end->timed)
    return keep(cudaErrorInvalidResourceHandle);
  *ms = static_cast<float>(end->ms - start->ms);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (capture || !stream) return keep(cudaErrorInvalidValue);
  capture = std::make_unique<Capture>(Capture{stream, ++captures, new EmulatedGraph, {}, {}, {}});
  capture->clocks[stream];
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!capture || capture->origin != stream) return keep(cudaErrorInvalidValue);
  const std::unique_ptr<Capture> ended = std::move(capture);
  while (!ended->left_out.empty()) ended->judge_left_out(ended->left_out[0].stream, "its end");
  for (const auto& [other, work] : ended->nodes)
    if (ended->clocks[stream][other] != static_cast<int>(work.size())) {
      delete ended->graph;
      return keep(cudaErrorStreamCaptureUnjoined);
    }
  *graph = ended->graph;
  count_graphs(1);
  return outcome(true);
}
static std::atomic<unsigned long long> last_graph_flags = 0;
unsigned long long hlite::emulation::graph_flags() { return last_graph_flags; }
static std::atomic<size_t> last_graph_nodes = 0;
size_t hlite::emulation::graph_nodes() { return last_graph_nodes; }
static std::atomic<size_t> last_graph_path = 0;
size_t hlite::emulation::graph_path() { return last_graph_path; }
static size_t longest_path(const hlite::emulation::PieceGraph& graph) {
  std::vector<size_t> before = graph.before, length(before.size(), 1), next;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] == 0) next.push_back(i);
  size_t longest = 0;
  while (!next.empty()) {
    const size_t i = next.back();
    next.pop_back();
    longest = std::max(longest, length[i]);
    for (const size_t later : graph.next[i]) {
      length[later] = std::max(length[later], length[i] + 1);
      if (--before[later] == 0) next.push_back(later);
    }
  }
  return longest;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  last_graph_flags = flags;
  last_graph_nodes = graph->work->pieces.size();
  last_graph_path = longest_path(*graph->work);
  StreamQueues::let_kernels_end("cudaGraphInstantiate");
  *exec = new EmulatedGraph(*graph);
  count_graphs(1);
  return outcome(true);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  StreamQueues::let_kernels_end("cudaGraphUpload");
  exec->uploaded = true;
  return outcome(true);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (!std::exchange(exec->uploaded, true))
    StreamQueues::let_kernels_end("a first cudaGraphLaunch");
  StreamQueues::put(queue_of(stream), exec->work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  count_graphs(-1);
  delete graph;
  return cudaSuccess;
}
// Launches that were made still run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphDestroy(exec); }
