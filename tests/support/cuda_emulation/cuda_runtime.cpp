#include "tests/support/cuda_emulation/cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <set>

struct EmulatedStream {};
struct EmulatedEvent {};

namespace hlite::emulation {
namespace {

constexpr size_t kPlainSharedBytes = 48 * 1024;

// Owners of memory and handles, so that a foreign or stale one is an error as on a device.
std::mutex mutex;
std::set<const void*> streams, events, device_memory, pinned_memory;
std::map<const void*, int> allowed_shared;  // by cudaFuncSetAttribute
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;
Machine the_machine;

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

bool known(const std::set<const void*>& owners, const void* handle) {
  const std::lock_guard lock(mutex);
  return owners.contains(handle);
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

cudaError_t allocate(void** data, size_t bytes, std::set<const void*>& owners, int& count) {
  if (const cudaError_t error = outcome(true, cudaSuccess); error != cudaSuccess) return error;
  *data = std::malloc(bytes);
  if (!*data) return keep(cudaErrorMemoryAllocation);
  std::memset(*data, 0xFF, bytes);
  const std::lock_guard lock(mutex);
  owners.insert(*data);
  ++count;
  return cudaSuccess;
}

cudaError_t release(void* data, std::set<const void*>& owners, int& count) {
  if (!data) return cudaSuccess;
  {
    const std::lock_guard lock(mutex);
    if (owners.erase(data) == 0) return keep(cudaErrorInvalidValue);
    --count;
  }
  std::free(data);
  return cudaSuccess;
}

}  // namespace

Machine& machine() { return the_machine; }

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  size_t allowed = kPlainSharedBytes;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = allowed_shared.find(kernel); it != allowed_shared.end())
      allowed = static_cast<size_t>(it->second);
  }
  if (config.dynamicSmemBytes > allowed) return keep(cudaErrorInvalidValue);
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
  }
  return "unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return create(stream, streams, the_machine.streams);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return destroy(stream, streams, the_machine.streams);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return check_stream(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  ++the_machine.waits;
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  return check_stream(stream);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return create(event, events, the_machine.events);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroy(event, events, the_machine.events);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!known(events, event)) return keep(cudaErrorInvalidResourceHandle);
  return check_stream(stream);
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return allocate(data, bytes, device_memory, the_machine.device_blocks);
}
cudaError_t cudaFree(void* data) { return release(data, device_memory, the_machine.device_blocks); }
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  return cudaFree(data);
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return allocate(data, bytes, pinned_memory, the_machine.pinned_blocks);
}
cudaError_t cudaFreeHost(void* data) {
  return release(data, pinned_memory, the_machine.pinned_blocks);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  std::memset(data, byte, bytes);
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
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = size_t{1} << 30;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  if (device < 0 || device >= the_machine.devices) return keep(cudaErrorInvalidDevice);
  *value = the_machine.shared_bytes_optin;
  return outcome(true, cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value > the_machine.shared_bytes_optin) return keep(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  allowed_shared[kernel] = value;
  return cudaSuccess;
}
