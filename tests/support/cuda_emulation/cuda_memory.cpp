// Memory of device and host, and copies.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/cuda_emulation/runtime_state.h"

namespace hlite::emulation {
namespace {

// Owners of memory, so that a foreign or stale block is an error as on a device.
std::mutex mutex;
using Blocks = std::map<const void*, size_t>;  // bytes of each
Blocks device_memory, pinned_memory, registered;

cudaError_t allocate(void** data, size_t bytes, Blocks& owners, int& count) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = outcome(true); error != cudaSuccess) return error;
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
    if (&owners == &device_memory) machine().used_bytes -= block->second;
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

}  // namespace
}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

cudaError_t cudaMalloc(void** data, size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    if (machine().used_bytes + bytes > machine().memory_bytes)
      return keep(cudaErrorMemoryAllocation);
  }
  const cudaError_t error = allocate(data, bytes, device_memory, machine().device_blocks);
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  machine().used_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  StreamQueues::finish_all();  // as a device does
  return release(data, device_memory, machine().device_blocks);
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (!machine().late_streams || capturing())
    return release(data, device_memory, machine().device_blocks);
  submit(stream, [data] { (void)release(data, device_memory, machine().device_blocks); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return allocate(data, bytes, pinned_memory, machine().pinned_blocks);
}
cudaError_t cudaFreeHost(void* data) {
  StreamQueues::finish_all();
  return release(data, pinned_memory, machine().pinned_blocks);
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  if (!data || bytes == 0) return keep(cudaErrorInvalidValue);
  if (const cudaError_t error = outcome(true); error != cudaSuccess) return error;
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
  *total = machine().memory_bytes;
  *free = *total - std::min(*total, machine().used_bytes);
  return outcome(true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (!machine().late_streams || capturing()) {
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
