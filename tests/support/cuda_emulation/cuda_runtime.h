// Stands in for NVIDIA's header of this name: first on the include path, it lets g++ compile the
// project's .cu files, whose kernels then run on the CPU (block_fibers.h). It holds what those
// files use, not all of CUDA. Work runs at once, as late as a device may, or in random orders
// (stream_queues.h); of several devices each has memory of its own (device_ranges.h).
// Static shared memory keeps its content between blocks, dynamic shared memory and fresh device
// memory are filled with NaN.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/emulated_tensor_core.h"
#include "tests/support/cuda_emulation/race_check.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}  // NOLINT
};

// ---- In kernels ----

inline const hlite::emulation::Triple& threadIdx = hlite::emulation::here.thread;
inline const hlite::emulation::Triple& blockIdx = hlite::emulation::here.block;
inline const hlite::emulation::Triple& blockDim = hlite::emulation::here.block_dim;
inline const hlite::emulation::Triple& gridDim = hlite::emulation::here.grid_dim;
inline constexpr int warpSize = hlite::emulation::kWarpSize;

namespace hlite {
template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulation::here.shared);
}
}  // namespace hlite

inline void __syncthreads(std::source_location site = std::source_location::current()) {
  hlite::emulation::block_barrier(site);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location site = std::source_location::current()) {
  hlite::emulation::warp_barrier(mask, site);
}
inline void __threadfence() { hlite::emulation::note_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() {}
// A kernel that polls a word of memory calls this between two reads. Here it abandons the whole
// grid, which starts again when other work has run: before it waits, such a kernel must do nothing
// that it cannot do twice.
[[noreturn]] inline void __nanosleep(unsigned) { hlite::emulation::wait_for_word(); }

namespace hlite::emulation {
template <typename T>
T shuffle(const char* what, unsigned mask, T value, unsigned source, std::source_location site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(what, mask, bits, source, false, site).value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
// First lane of the segment of `width` lanes (a power of two) that the running thread is in.
inline unsigned segment(int width) { return lane() & ~(static_cast<unsigned>(width) - 1); }
}  // namespace hlite::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              std::source_location site = std::source_location::current()) {
  const unsigned within = static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1);
  return hlite::emulation::shuffle("__shfl_sync", mask, value,
                                   hlite::emulation::segment(width) + within, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane();
  const bool inside = lane >= hlite::emulation::segment(width) + delta;
  return hlite::emulation::shuffle("__shfl_up_sync", mask, value, inside ? lane - delta : lane,
                                   site);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane();
  const bool inside =
      lane + delta < hlite::emulation::segment(width) + static_cast<unsigned>(width);
  return hlite::emulation::shuffle("__shfl_down_sync", mask, value, inside ? lane + delta : lane,
                                   site);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane(), other = lane ^ static_cast<unsigned>(lane_mask);
  const bool inside = other < hlite::emulation::segment(width) + static_cast<unsigned>(width);
  return hlite::emulation::shuffle("__shfl_xor_sync", mask, value, inside ? other : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane();
  return hlite::emulation::exchange("__ballot_sync", mask, 0, lane, predicate != 0, site).votes;
}
inline int __popc(unsigned word) { return std::popcount(word); }
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane();
  return hlite::emulation::exchange("__any_sync", mask, 0, lane, predicate != 0, site).votes != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location site = std::source_location::current()) {
  const unsigned lane = hlite::emulation::lane();
  const auto all = hlite::emulation::exchange("__all_sync", mask, 0, lane, predicate != 0, site);
  return all.votes == all.lanes;
}

// Fibers switch only at waits, so plain code is atomic. All return the value before.
namespace hlite::emulation {
template <typename T, typename Next>
__attribute__((noinline, no_sanitize_thread)) T atomically(T* at, const Next& next) {
  note_access(at, sizeof(T), Access::kAtomic, __builtin_return_address(0));
  note_atomic(at);
  const T before = *at;
  *at = static_cast<T>(next(before));
  return before;
}
}  // namespace hlite::emulation
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(at, [=](T before) { return before + value; });
}
// 0 after `last`.
inline unsigned atomicInc(unsigned* at, unsigned last) {
  return hlite::emulation::atomically(
      at, [=](unsigned before) { return before >= last ? 0 : before + 1; });
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(at,
                                      [=](T before) { return before < value ? value : before; });
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(at,
                                      [=](T before) { return value < before ? value : before; });
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(at, [=](T before) { return before | value; });
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(at, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return hlite::emulation::atomically(
      at, [=](T before) { return before == expected ? value : before; });
}

// ---- On the host ----

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorPeerAccessNotEnabled = 705,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
  cudaErrorLaunchFailure = 719,
  cudaErrorInvalidClusterSize = 912,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
// By Machine::clock_ms.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end);

// Work of a stream that is being captured is kept, not run; a launch runs it in an order that only
// its dependencies bind, another one each time.
using cudaGraph_t = struct EmulatedGraph*;
using cudaGraphExec_t = struct EmulatedGraph*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
inline constexpr unsigned cudaHostRegisterDefault = 0;
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
// Needs no access to the peer's memory; cudaMemcpyAsync() does here, though CUDA then takes a slow
// way over the host.
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t stream);

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrClusterLaunch = 120,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound
};
inline constexpr unsigned long long cudaEnableDefault = 0;
// Knows cuModuleGetLoadingMode alone.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
enum cudaDeviceP2PAttr { cudaDevP2PAttrNativeAtomicSupported = 3 };
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device,
                                      int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
// "EEEE:02:00.0" of device 1: an address that no machine has.
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int threads, size_t shared_bytes);

enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct cudaFuncAttributes {
  int ptxVersion;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                           const cudaLaunchConfig_t* config);

namespace hlite::emulation {
enum class StreamOrder { kAtOnce, kLate, kRandom };  // stream_queues.h

// The name of the next kernel that this thread launches; launch() sets it.
inline thread_local const char* launch_name = "kernel";

// Fails where a test wants it to (planted.h).
cudaError_t check_fault(int device, const char* name);
cudaError_t check_fault_on(cudaStream_t stream, const char* name);
// Neighbours in x that run together.
inline unsigned cluster_blocks(const cudaLaunchConfig_t& config) {
  return config.numAttrs == 0 ? 1 : config.attrs[0].val.clusterDim.x;
}
// Returns the error of a device that refuses such a launch.
cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel);

// The emulated machine, to be changed by tests. Not synchronised: change it while nothing runs.
struct Machine {
  int devices = 1;  // at most kMaxDevices; $HLITE_EMULATED_DEVICES
  bool peers_connected = true;
  // Pairs of devices without atomics between them, as over PCIe: "0-2 1-3", or "all";
  // $HLITE_EMULATED_BUS says it for a whole program.
  std::string bus_pairs;
  int driver_version = 13000;
  int runtime_version = 13000;
  bool loads_lazily =
      false;  // $CUDA_MODULE_LOADING=LAZY when it is first asked, as the driver does
  cudaError_t next_error = cudaSuccess;  // the next call that can fail returns this, once
  int shared_bytes_optin = 227 * 1024;
  // Few, so that kernels whose grid is what runs at a time have to go round.
  int multiprocessors = 1;
  int resident_blocks = 2;  // of any kernel on a multiprocessor
  bool has_clusters = true;
  // Memory of each device; $HLITE_EMULATED_MEMORY says another number of bytes for a whole program.
  size_t memory_bytes = size_t{1} << 30;
  size_t used_bytes = 0;  // of all devices
  std::array<size_t, kMaxDevices> device_bytes{};
  // When work on streams runs; $HLITE_EMULATED_STREAMS=late or random:SEED for a whole program.
  StreamOrder order = StreamOrder::kAtOnce;
  uint64_t seed = 1;      // of a whole program's random order
  int stuck_ms = 600000;  // so long nothing happens while a thread waits: an error
  // Alive at the moment.
  int streams = 0, events = 0, device_blocks = 0, pinned_blocks = 0, registered_blocks = 0;
  int graphs = 0;
  int waits = 0;        // calls of cudaStreamWaitEvent so far
  double clock_ms = 0;  // what events record; stand-ins of libraries move it on
};
Machine& machine();

// Runs `work`, or keeps it where its stream is being captured. Everything that a stream does comes
// through here. `name` stays valid.
void submit(cudaStream_t stream, std::function<void()> work, const char* name = "library call");
}  // namespace hlite::emulation

template <typename... Params, typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args&&... args) {
  if (const cudaError_t error =
          hlite::emulation::check_launch(*config, reinterpret_cast<const void*>(kernel));
      error != cudaSuccess)
    return error;
  hlite::emulation::submit(
      config->stream,
      [launch = *config, cluster = hlite::emulation::cluster_blocks(*config),
       name = hlite::emulation::launch_name, kernel, ... values = std::decay_t<Params>(args)] {
        const dim3 &grid = launch.gridDim, &block = launch.blockDim;
        hlite::emulation::run_grid(
            name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, launch.dynamicSmemBytes,
            [&] { kernel(Params(values)...); }, cluster);
      },
      hlite::emulation::launch_name);
  return cudaSuccess;
}
