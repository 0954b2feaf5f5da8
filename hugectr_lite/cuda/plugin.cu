// The plug-in's functions for programs.
#include "hugectr_lite/cuda/plugin.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/cuda/device_report.h"

namespace hlite::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void copy_text(const std::string& from, char* text, size_t size) {
  std::snprintf(text, size, "%s", from.c_str());
}

// Turns body(args...), which throws, into a function of the table, which does not.
template <auto kBody>
struct Entry;
template <typename... Params, void (*kBody)(Params...)>
struct Entry<kBody> {
  static bool call(Failure* failure, Params... args) noexcept {
    return report_failure(failure, [&] { kBody(args...); });
  }
};

int driver_version() noexcept {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version() noexcept {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

// cuModuleGetLoadingMode(), without linking the driver. One that does not have it loads eagerly.
bool loads_lazily() noexcept {
  constexpr unsigned kSince = 11070;
  constexpr int kLazy = 2;  // CU_MODULE_LAZY_LOADING
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  int mode = 0;
  if (cudaGetDriverEntryPointByVersion("cuModuleGetLoadingMode", &found, kSince, cudaEnableDefault,
                                       &result) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return found && reinterpret_cast<int (*)(int*)>(found)(&mode) == 0 && mode == kLazy;
}

int device_count(char* why, size_t size) noexcept {
  DeviceQuery query;
  query.driver_version = driver_version();
  query.runtime_version = runtime_version();
  const cudaError_t error = cudaGetDeviceCount(&query.devices);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    query.failed = true;
    query.error = cudaGetErrorString(error);
    query.devices = 0;
  }
  copy_text(why_no_device(query), why, size);
  return query.devices;
}

void device_description(int device, char* text, size_t size) {
  cudaDeviceProp properties{};
  HLITE_CUDA(cudaGetDeviceProperties(&properties, device));
  std::snprintf(text, size, "%s, compute capability %d.%d, %.1f GiB, %d multiprocessors",
                properties.name, properties.major, properties.minor,
                static_cast<double>(properties.totalGlobalMem) / (1u << 30),
                properties.multiProcessorCount);
}

void use_device(int device) { HLITE_CUDA(cudaSetDevice(device)); }

void stream_create(void** stream) { *stream = Stream().release(); }
void stream_destroy(void* stream) { HLITE_CUDA(cudaStreamDestroy(stream_of(stream))); }
void device_synchronize() { HLITE_CUDA(cudaDeviceSynchronize()); }
void stream_synchronize(void* stream) { HLITE_CUDA(cudaStreamSynchronize(stream_of(stream))); }

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
void event_create(void** event) {
  cudaEvent_t handle = nullptr;
  HLITE_CUDA(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming));
  *event = handle;
}
void event_destroy(void* event) { HLITE_CUDA(cudaEventDestroy(event_of(event))); }
void event_record(void* event, void* stream) {
  HLITE_CUDA(cudaEventRecord(event_of(event), stream_of(stream)));
}
void stream_wait_event(void* stream, void* event) {
  HLITE_CUDA(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}
void event_synchronize(void* event) { HLITE_CUDA(cudaEventSynchronize(event_of(event))); }

// Thread-local: other threads of the program may allocate and wait meanwhile.
void capture_begin(void* stream) {
  HLITE_CUDA(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}
void capture_end(void* stream, void** graph) {
  *graph = nullptr;
  cudaGraph_t captured = nullptr;
  HLITE_CUDA(cudaStreamEndCapture(stream_of(stream), &captured));
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error =
      cudaGraphInstantiate(&exec, captured, cudaGraphInstantiateFlagUseNodePriority);
  report_cuda(cudaGraphDestroy(captured), "cudaGraphDestroy");
  HLITE_CUDA(error);
  // An upload takes memory, for which a driver may wait until no kernel runs, on peers either: not
  // in the first launch, when others may have launched kernels that wait for this one.
  const cudaError_t uploaded = cudaGraphUpload(exec, stream_of(stream));
  if (uploaded != cudaSuccess) report_cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  HLITE_CUDA(uploaded);
  *graph = exec;
}
void graph_launch(void* graph, void* stream) {
  HLITE_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
}
void graph_destroy(void* graph) {
  HLITE_CUDA(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

void allocate(void** data, size_t bytes) {
  *data = nullptr;
  if (bytes > 0) HLITE_CUDA(cudaMalloc(data, bytes));
}
void free_device(void* data) {
  if (data) HLITE_CUDA(cudaFree(data));
}
void allocate_pinned(void** data, size_t bytes) {
  *data = nullptr;
  if (bytes > 0) HLITE_CUDA(cudaMallocHost(data, bytes));
}
void free_pinned(void* data) {
  if (data) HLITE_CUDA(cudaFreeHost(data));
}
void pin(void* data, size_t bytes) {
  HLITE_CUDA(cudaHostRegister(data, bytes, cudaHostRegisterDefault));
}
void unpin(void* data) { HLITE_CUDA(cudaHostUnregister(data)); }
void memory_info(int64_t* free, int64_t* total) {
  size_t free_bytes = 0, total_bytes = 0;
  HLITE_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  *free = static_cast<int64_t>(free_bytes);
  *total = static_cast<int64_t>(total_bytes);
}
void copy(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)));
}
void zero(void* data, size_t bytes, void* stream) {
  if (bytes > 0) HLITE_CUDA(cudaMemsetAsync(data, 0, bytes, stream_of(stream)));
}

constexpr DeviceFunctions kDeviceFunctions = {
    .device_count = device_count,
    .driver_version = driver_version,
    .runtime_version = runtime_version,
    .loads_lazily = loads_lazily,
    .device_description = {Entry<device_description>::call},
    .use_device = {Entry<use_device>::call},
    .stream_create = {Entry<stream_create>::call},
    .stream_destroy = {Entry<stream_destroy>::call},
    .stream_synchronize = {Entry<stream_synchronize>::call},
    .device_synchronize = {Entry<device_synchronize>::call},
    .event_create = {Entry<event_create>::call},
    .event_destroy = {Entry<event_destroy>::call},
    .event_record = {Entry<event_record>::call},
    .stream_wait_event = {Entry<stream_wait_event>::call},
    .event_synchronize = {Entry<event_synchronize>::call},
    .capture_begin = {Entry<capture_begin>::call},
    .capture_end = {Entry<capture_end>::call},
    .graph_launch = {Entry<graph_launch>::call},
    .graph_destroy = {Entry<graph_destroy>::call},
    .allocate = {Entry<allocate>::call},
    .free = {Entry<free_device>::call},
    .allocate_pinned = {Entry<allocate_pinned>::call},
    .free_pinned = {Entry<free_pinned>::call},
    .pin = {Entry<pin>::call},
    .unpin = {Entry<unpin>::call},
    .memory_info = {Entry<memory_info>::call},
    .copy = {Entry<copy>::call},
    .zero = {Entry<zero>::call},
};

}  // namespace

const Plugin& this_plugin() {
  static const KernelList list = [] {
    KernelList all;
    list_all_kernels(all);
    return all;
  }();
  static const Plugin plugin{build_identity(), &kDeviceFunctions, list.entries().data(),
                             static_cast<int64_t>(list.entries().size())};
  return plugin;
}

}  // namespace hlite::cuda
