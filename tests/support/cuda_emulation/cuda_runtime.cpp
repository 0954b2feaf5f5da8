#include "tests/support/cuda_emulation/cuda_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "tests/support/cuda_emulation/stream_queues.h"

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

constexpr size_t kPlainSharedBytes = 48 * 1024;

// Owners of memory and handles, so that a foreign or stale one is an error as on a device.
std::mutex mutex;
std::set<const void*> streams, events;
using Blocks = std::map<const void*, size_t>;  // bytes of each
Blocks device_memory, pinned_memory, registered;
std::map<const void*, int> allowed_shared;  // by cudaFuncSetAttribute
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

Machine first_machine() {
  Machine m;
  if (const char* bytes = std::getenv("HLITE_EMULATED_MEMORY"))
    m.memory_bytes = std::strtoull(bytes, nullptr, 10);
  const char* const order = std::getenv("HLITE_EMULATED_STREAMS");
  m.late_streams = order && order == std::string_view("late");
  return m;
}
Machine the_machine = first_machine();

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

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// The error a test asked for, or that of `ok` being false.
cudaError_t outcome(bool ok, cudaError_t otherwise) {
  if (the_machine.next_error != cudaSuccess)
    return keep(std::exchange(the_machine.next_error, cudaSuccess));
  return ok ? cudaSuccess : keep(otherwise);
}

const StreamHandle& queue_of(cudaStream_t stream) {
  return stream ? stream->queue : StreamQueues::default_stream();
}

bool known(const std::set<const void*>& owners, const void* handle) {
  const std::lock_guard lock(mutex);
  return owners.contains(handle);
}

// What waits or takes memory; a capture does not allow it.
cudaError_t check_not_capturing() {
  return capture ? keep(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

// Null is the default stream.
cudaError_t check_stream(cudaStream_t stream) {
  return outcome(!stream || known(streams, stream), cudaErrorInvalidResourceHandle);
}

template <typename T>
cudaError_t create(T** handle, std::set<const void*>& owners, int& count) {
  if (const cudaError_t error = outcome(true, cudaSuccess); error != cudaSuccess) return error;
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

cudaError_t allocate(void** data, size_t bytes, Blocks& owners, int& count) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = outcome(true, cudaSuccess); error != cudaSuccess) return error;
  *data = std::malloc(bytes);
  if (!*data) return keep(cudaErrorMemoryAllocation);
  std::memset(*data, 0xFF, bytes);
  const std::lock_guard lock(mutex);
  owners[*data] = bytes;
  ++count;
  return cudaSuccess;
}

cudaError_t release(void* data, Blocks& owners, int& count) {
  if (!data) return cudaSuccess;
  {
    const std::lock_guard lock(mutex);
    const auto block = owners.find(data);
    if (block == owners.end()) return keep(cudaErrorInvalidValue);
    if (&owners == &device_memory) the_machine.used_bytes -= block->second;
    owners.erase(block);
    --count;
  }
  std::free(data);
  return cudaSuccess;
}

bool inside(const Blocks& blocks, const void* data) {
  auto behind = blocks.upper_bound(data);
  if (behind == blocks.begin()) return false;
  const auto& [start, bytes] = *--behind;
  return data < static_cast<const std::byte*>(start) + bytes;
}

// Memory of the host that the device cannot reach by itself.
bool pageable(const void* data) {
  const std::lock_guard lock(mutex);
  return !inside(device_memory, data) && !inside(pinned_memory, data) && !inside(registered, data);
}

// Dynamic shared memory that a kernel may have.
size_t allowed_bytes(const void* kernel) {
  const std::lock_guard lock(mutex);
  const auto it = allowed_shared.find(kernel);
  return it == allowed_shared.end() ? kPlainSharedBytes : static_cast<size_t>(it->second);
}

}  // namespace

Machine& machine() { return the_machine; }

void submit(cudaStream_t stream, std::function<void()> work) {
  if (!capture || !capture->clocks.contains(stream))
    return StreamQueues::put(queue_of(stream), std::move(work), the_machine.late_streams);
  Clock& clock = capture->clocks[stream];
  EmulatedGraph::Node node{std::move(work), {}};
  for (const auto& [other, last] : clock)
    if (last > 0) node.after.push_back(capture->nodes[other][static_cast<size_t>(last - 1)]);
  auto& mine = capture->nodes[stream];
  mine.push_back(capture->graph->nodes.size());
  clock[stream] = static_cast<int>(mine.size());
  capture->graph->nodes.push_back(std::move(node));
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  if (config.dynamicSmemBytes > allowed_bytes(kernel)) return keep(cudaErrorInvalidValue);
  return check_stream(config.stream);
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorCudartUnloading:
      return "cudaErrorCudartUnloading";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
  }
  return "unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const cudaError_t error = create(stream, streams, the_machine.streams);
  if (error == cudaSuccess) (*stream)->queue = StreamQueues::add(flags != cudaStreamNonBlocking);
  return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (known(streams, stream)) StreamQueues::remove(stream->queue);
  return destroy(stream, streams, the_machine.streams);
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
  ++the_machine.waits;
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
  return create(event, events, the_machine.events);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroy(event, events, the_machine.events);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  event->ms = the_machine.clock_ms;
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
  ++the_machine.graphs;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new EmulatedGraph(*graph);
  ++the_machine.graphs;
  return outcome(true, cudaSuccess);
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
  --the_machine.graphs;
  delete graph;
  return cudaSuccess;
}
// A device ends launches first.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  StreamQueues::finish_all();
  return cudaGraphDestroy(exec);
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    if (the_machine.used_bytes + bytes > the_machine.memory_bytes)
      return keep(cudaErrorMemoryAllocation);
  }
  const cudaError_t error = allocate(data, bytes, device_memory, the_machine.device_blocks);
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  the_machine.used_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  StreamQueues::finish_all();  // as a device does
  return release(data, device_memory, the_machine.device_blocks);
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (!the_machine.late_streams || capture)
    return release(data, device_memory, the_machine.device_blocks);
  submit(stream, [data] { (void)release(data, device_memory, the_machine.device_blocks); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return allocate(data, bytes, pinned_memory, the_machine.pinned_blocks);
}
cudaError_t cudaFreeHost(void* data) {
  StreamQueues::finish_all();
  return release(data, pinned_memory, the_machine.pinned_blocks);
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  if (!data || bytes == 0) return keep(cudaErrorInvalidValue);
  if (const cudaError_t error = outcome(true, cudaSuccess); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  return registered.emplace(data, bytes).second ? cudaSuccess : keep(cudaErrorInvalidValue);
}
// Sanitizers see here what was freed too early; others may be writing to it meanwhile.
__attribute__((no_sanitize_thread)) static void touch(void* data) {
  static_cast<void>(*static_cast<volatile std::byte*>(data));
}
cudaError_t cudaHostUnregister(void* data) {
  const std::lock_guard lock(mutex);
  if (registered.erase(data) == 0) return keep(cudaErrorInvalidValue);
  touch(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = the_machine.memory_bytes;
  *free = *total - std::min(*total, the_machine.used_bytes);
  return outcome(true, cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (!the_machine.late_streams || capture) {
    submit(stream, [=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
  }
  // Pageable memory has been read when the call returns, and has been written, too.
  if (pageable(from)) {
    const auto* const first = static_cast<const std::byte*>(from);
    submit(stream, [to, kept = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, kept.data(), kept.size());
    });
  } else {
    submit(stream, [=] { std::memcpy(to, from, bytes); });
  }
  if (pageable(to)) StreamQueues::finish(StreamQueues::end(queue_of(stream)));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  submit(stream, [=] { std::memset(data, byte, bytes); });
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  // As the real one without driver: the count stays untouched.
  if (the_machine.driver_version / 1000 < the_machine.runtime_version / 1000)
    return keep(cudaErrorInsufficientDriver);
  if (the_machine.devices == 0) return keep(cudaErrorNoDevice);
  *count = the_machine.devices;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = the_machine.driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = the_machine.runtime_version;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= the_machine.devices) return keep(cudaErrorInvalidDevice);
  current_device = device;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= the_machine.devices) return keep(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated device");
  properties->major = 9;
  properties->multiProcessorCount = the_machine.multiprocessors;
  properties->totalGlobalMem = the_machine.memory_bytes;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= the_machine.devices) return keep(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount ? the_machine.multiprocessors
                                                       : the_machine.shared_bytes_optin;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value > the_machine.shared_bytes_optin) return keep(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  allowed_shared[kernel] = value;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int /*threads*/, size_t shared_bytes) {
  const size_t per_block = shared_bytes + 1024;  // what the device keeps for itself
  const auto fit =
      static_cast<int>((static_cast<size_t>(the_machine.shared_bytes_optin) + 1024) / per_block);
  *blocks = shared_bytes > allowed_bytes(kernel) ? 0 : std::min(the_machine.resident_blocks, fit);
  return outcome(true, cudaSuccess);
}
