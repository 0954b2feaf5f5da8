// The plug-in gives a program its build, the functions of the device, and the entry points of its
// kernels (core/kernel.h).
//
// The library exports one C function, hlite_cuda_plugin(), which returns a Plugin. Both sides are
// of one build or do not work together: build_identity() changes with every header that they share.
// Pointers named `stream` are cudaStream_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hlite::cuda {

inline constexpr const char* kLibraryName = "libhlite_cuda.so";
inline constexpr const char* kEntryName = "hlite_cuda_plugin";

// "0.1.0-" and a hash of the headers that programs and plug-in share (cmake/build_identity.cmake).
const char* build_identity() noexcept;

struct Failure {
  char text[1024] = {};
};

// Throws DeviceError with the words of `failure`. Defined on the program's side only.
[[noreturn]] void throw_failure(const Failure& failure);

// One function of the plug-in; calling it throws DeviceError when the plug-in reports a failure.
template <typename... Params>
struct Function {
  bool (*entry)(Failure*, Params...) noexcept;

  void operator()(Params... args) const {
    Failure failure;
    if (!entry(&failure, args...)) throw_failure(failure);
  }
};

// Devices, memory, streams, events and graphs.
struct DeviceFunctions {
  // Number of usable devices. When 0, why[0..size) holds the reason in plain words.
  int (*device_count)(char* why, size_t size) noexcept;
  // Returns the version as CUDA counts: 13000 is 13.0. The driver's is 0 where no driver is
  // installed.
  int (*driver_version)() noexcept;
  int (*runtime_version)() noexcept;
  // Whether the driver loads a kernel when it is first launched, which may wait for all that run.
  bool (*loads_lazily)() noexcept;

  // Name, compute capability and memory of a device, as text.
  Function<int /*device*/, char* /*text*/, size_t /*size*/> device_description;
  // Makes the calling thread work on this device from now on.
  Function<int /*device*/> use_device;

  Function<void** /*stream*/> stream_create;
  Function<void* /*stream*/> stream_destroy;
  Function<void* /*stream*/> stream_synchronize;
  // Waits for all work of the current device.
  Function<> device_synchronize;
  // Orders streams: work put on `stream` after the wait starts after what was on the other one
  // when the event was recorded.
  Function<void** /*event*/> event_create;
  Function<void* /*event*/> event_destroy;
  Function<void* /*event*/, void* /*stream*/> event_record;
  Function<void* /*stream*/, void* /*event*/> stream_wait_event;
  // Waits on the host for what was recorded.
  Function<void* /*event*/> event_synchronize;
  // Begins and ends a capture: what is put on `stream` between the two, and on streams that it
  // holds back and that hold it back again, becomes a graph instead of running; launched, it runs
  // as one piece of work of a stream. When capture_end fails nothing is left of it.
  Function<void* /*stream*/> capture_begin;
  Function<void* /*stream*/, void** /*graph*/> capture_end;
  Function<void* /*graph*/, void* /*stream*/> graph_launch;
  Function<void* /*graph*/> graph_destroy;

  // Device memory, uninitialised; 0 bytes give null. Freeing null does nothing; freeing waits for
  // the device.
  Function<void** /*data*/, size_t /*bytes*/> allocate;
  Function<void* /*data*/> free;
  // Page-locked host memory, for copies that overlap with work.
  Function<void** /*data*/, size_t /*bytes*/> allocate_pinned;
  Function<void* /*data*/> free_pinned;
  // Page-locks host memory that is there already; until unpin() of the same address.
  Function<void* /*data*/, size_t /*bytes*/> pin;
  Function<void* /*data*/> unpin;
  // Bytes of the current device's memory.
  Function<int64_t* /*free*/, int64_t* /*total*/> memory_info;
  // Between any two of host and device, in the order of the stream.
  Function<void* /*to*/, const void* /*from*/, size_t /*bytes*/, void* /*stream*/> copy;
  Function<void* /*data*/, size_t /*bytes*/, void* /*stream*/> zero;
};

// The host's entry point of a kernel. A function's own type is known to its handle alone.
using AnyFunction = void (*)();
struct KernelEntry {
  const char* name;
  const char* signature;  // the handle's: typeid().name() of its function type
  AnyFunction call;
};

struct Plugin {
  const char* build;  // stays first: if it differs, no later field is read
  const DeviceFunctions* device;
  const KernelEntry* kernels;
  int64_t kernel_count;
};

using PluginEntry = const Plugin* (*)();

}  // namespace hlite::cuda
