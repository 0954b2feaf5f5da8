// Errors, devices and what kernels may use.
#include "tests/support/cuda_emulation/cuda_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/cuda_emulation/cuda_runtime_api.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/cuda_emulation/runtime_state.h"

namespace hlite::emulation {
namespace {

constexpr size_t kPlainSharedBytes = 48 * 1024;

std::mutex mutex;
std::map<const void*, int> allowed_shared;  // by cudaFuncSetAttribute
// The leak checker of GCC 12 reads a header before a library's block of thread variables where the
// block lies 16 bytes into a page (as it does for the allocator of an older libc), and crashes on
// what it finds. A block aligned to more than 16 never lies there.
alignas(64) thread_local cudaError_t last_error = cudaSuccess;
thread_local int thread_device = 0;

Machine first_machine() {
  Machine m;
  if (const char* bytes = std::getenv("HLITE_EMULATED_MEMORY"))
    m.memory_bytes = std::strtoull(bytes, nullptr, 10);
  if (const char* devices = std::getenv("HLITE_EMULATED_DEVICES"))
    m.devices = std::clamp(std::atoi(devices), 0, kMaxDevices);
  if (const char* pairs = std::getenv("HLITE_EMULATED_BUS")) m.bus_pairs = pairs;
  if (const char* loading = std::getenv("CUDA_MODULE_LOADING"))
    m.loads_lazily = std::string_view(loading) == "LAZY";
  const char* const value = std::getenv("HLITE_EMULATED_STREAMS");
  const std::string_view order = value ? value : "";
  if (order == "late") m.order = StreamOrder::kLate;
  if (order.starts_with("random")) m.order = StreamOrder::kRandom;
  if (order.starts_with("random:")) m.seed = std::strtoull(value + 7, nullptr, 10);
  return m;
}

// Dynamic shared memory that a kernel may have.
size_t allowed_bytes(const void* kernel) {
  const std::lock_guard lock(mutex);
  const auto it = allowed_shared.find(kernel);
  return it == allowed_shared.end() ? kPlainSharedBytes : static_cast<size_t>(it->second);
}

}  // namespace

int& l2_bytes() {
  const char* const value = std::getenv("HLITE_EMULATED_L2");
  static int bytes = value ? std::atoi(value) : 50 << 20;
  return bytes;
}
Machine& machine() {
  static Machine the_machine = first_machine();
  return the_machine;
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t outcome(bool ok, cudaError_t otherwise) {
  if (machine().next_error != cudaSuccess)
    return keep(std::exchange(machine().next_error, cudaSuccess));
  return ok ? cudaSuccess : keep(otherwise);
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  if (const cudaError_t error = check_fault(current_device(), launch_name); error != cudaSuccess)
    return error;
  if (config.dynamicSmemBytes > allowed_bytes(kernel)) return keep(cudaErrorInvalidValue);
  const unsigned cluster = cluster_blocks(config);
  if (cluster == 0 || cluster > (machine().has_clusters ? kMaxClusterBlocks : 1) ||
      config.gridDim.x % cluster != 0)
    return keep(cudaErrorInvalidClusterSize);
  return check_own_stream(config.stream);
}

cudaError_t check_fault(int device, const char* name) {
  return strikes(Planted::What::kFails, device, name) ? keep(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t check_fault_on(cudaStream_t stream, const char* name) {
  return check_fault(device_of(stream), name);
}

int current_device() { return thread_device; }

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
    case cudaErrorInvalidClusterSize:
      return "cudaErrorInvalidClusterSize";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorPeerAccessUnsupported:
      return "cudaErrorPeerAccessUnsupported";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorPeerAccessNotEnabled:
      return "cudaErrorPeerAccessNotEnabled";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered:
      return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  // Like the real function without a driver: it leaves the count as it was.
  if (machine().driver_version / 1000 < machine().runtime_version / 1000)
    return keep(cudaErrorInsufficientDriver);
  if (machine().devices == 0) return keep(cudaErrorNoDevice);
  *count = machine().devices;
  return outcome(true);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = machine().runtime_version;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  int (*const loading_mode)(int*) = [](int* mode) {
    constexpr int kEager = 1, kLazy = 2;
    *mode = machine().loads_lazily ? kLazy : kEager;
    return 0;
  };
  const bool known = std::string_view(symbol) == "cuModuleGetLoadingMode";
  *function = known ? reinterpret_cast<void*>(loading_mode) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return outcome(true);
}
cudaError_t cudaGetDevice(int* device) {
  *device = thread_device;
  return outcome(true);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().devices) return keep(cudaErrorInvalidDevice);
  thread_device = device;
  return outcome(true);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  for (const int d : {device, peer})
    if (d < 0 || d >= machine().devices) return keep(cudaErrorInvalidDevice);
  *can = machine().peers_connected && device != peer;
  return outcome(true);
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int device, int peer) {
  const cudaError_t error = cudaDeviceCanAccessPeer(value, device, peer);
  const auto [a, b] = std::minmax(device, peer);
  const std::string pair = std::to_string(a) + "-" + std::to_string(b),
                    all = " " + machine().bus_pairs + " ";
  if (all == " all " || all.find(" " + pair + " ") != std::string::npos) *value = 0;
  return error;
}
// Changes the access of the current device to the memory of `peer`, not the reverse.
static cudaError_t change_access(int peer, bool on) {
  int can = 0;
  const cudaError_t error = cudaDeviceCanAccessPeer(&can, current_device(), peer);
  if (error != cudaSuccess) return error;
  if (!can)
    return keep(peer == current_device() ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported);
  if (peer_access(current_device(), peer) == on)
    return keep(on ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled);
  set_peer_access(current_device(), peer, on);
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  StreamQueues::let_kernels_end("cudaDeviceEnablePeerAccess");
  return flags != 0 ? keep(cudaErrorInvalidValue) : change_access(peer, true);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) { return change_access(peer, false); }
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= machine().devices) return keep(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "EEEE:%02X:00.0", device + 1);
  return outcome(true);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= machine().devices) return keep(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated device");
  properties->major = 9;
  properties->multiProcessorCount = machine().multiprocessors;
  properties->totalGlobalMem = machine().memory_bytes;
  return outcome(true);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= machine().devices) return keep(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount ? machine().multiprocessors
           : attribute == cudaDevAttrL2CacheSize       ? l2_bytes()
           : attribute == cudaDevAttrClusterLaunch     ? machine().has_clusters
                                                       : machine().shared_bytes_optin;
  return outcome(true);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value > machine().shared_bytes_optin) return keep(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  allowed_shared[kernel] = value;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int /*threads*/, size_t shared_bytes) {
  const size_t per_block = shared_bytes + 1024;  // what the device keeps for itself
  const auto fit =
      static_cast<int>((static_cast<size_t>(machine().shared_bytes_optin) + 1024) / per_block);
  *blocks = shared_bytes > allowed_bytes(kernel) ? 0 : std::min(machine().resident_blocks, fit);
  return outcome(true);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {.ptxVersion = machine().has_clusters ? 90 : 80};
  return outcome(true);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                           const cudaLaunchConfig_t* config) {
  const unsigned blocks = cluster_blocks(*config);
  *clusters = config->dynamicSmemBytes <= allowed_bytes(kernel);
  return outcome(blocks > 0 && blocks <= kMaxClusterBlocks, cudaErrorInvalidClusterSize);
}
