// Memory of device and host, and copies.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/cuda_emulation/device_ranges.h"
#include "tests/support/cuda_emulation/runtime_state.h"

namespace hlite::emulation {
namespace {

// Owners of memory, so that a foreign or stale block is an error as on a device.
std::mutex mutex;
struct Block {
  size_t bytes;
  int device = -1;
};
using Blocks = std::map<const void*, Block>;
Blocks device_memory, pinned_memory, registered;

// Aligned like cudaMalloc's memory, but without slack at the end, so that overruns are seen.
void* aligned_block(size_t bytes) {
  constexpr size_t kAlignment = 256;
  void* data = nullptr;
  return posix_memalign(&data, kAlignment, bytes) == 0 ? data : nullptr;
}

cudaError_t allocate(void** data, Block block, Blocks& owners, int& count, bool of_pool = false) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (!of_pool) StreamQueues::let_kernels_end("taking memory");
  if (const cudaError_t error = outcome(true); error != cudaSuccess) return error;
  const auto held = StreamQueues::lock();  // the memory's owner may not change its view meanwhile
  const bool range = block.device >= 0 && machine().devices > 1;
  *data = range ? take_range(block.device, of_pool, block.bytes) : aligned_block(block.bytes);
  if (!*data) return keep(cudaErrorMemoryAllocation);
  if (!range) std::memset(*data, 0xFF, block.bytes);
  const std::lock_guard lock(mutex);
  owners[*data] = block;
  ++count;
  return cudaSuccess;
}

cudaError_t release(void* data, Blocks& owners, int& count) {
  if (!data) return cudaSuccess;
  Block block{};
  {
    const std::lock_guard lock(mutex);
    const auto found = owners.find(data);
    if (found == owners.end()) return keep(cudaErrorInvalidValue);
    block = found->second;
    if (block.device >= 0) {
      machine().used_bytes -= block.bytes;
      machine().device_bytes[static_cast<size_t>(block.device)] -= block.bytes;
    }
    owners.erase(found);
    --count;
  }
  const auto held = StreamQueues::lock();
  if (!give_range(data, block.bytes)) std::free(data);
  return cudaSuccess;
}

// Waits as a driver does before it frees memory, until wait() returns. Work that fails meanwhile
// does not keep the memory: its error is returned, to be thrown once the memory is free.
template <typename Wait>
std::exception_ptr wait_to_free(Wait&& wait) {
  std::exception_ptr failure;
  while (true) {  // each error ends a piece of work
    try {
      wait();
      return failure;
    } catch (const BlockedByWaitingKernel&) {
      throw;
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  }
}

// Allocates on the current device.
cudaError_t allocate_on_device(void** data, size_t bytes, bool of_pool) {
  const int device = current_device();
  if (const cudaError_t error = check_works(device); error != cudaSuccess) return error;
  size_t& used = machine().device_bytes[static_cast<size_t>(device)];
  {
    const std::lock_guard lock(mutex);
    if (used + bytes > machine().memory_bytes) return keep(cudaErrorMemoryAllocation);
  }
  const cudaError_t error =
      allocate(data, {bytes, device}, device_memory, machine().device_blocks, of_pool);
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  machine().used_bytes += bytes;
  used += bytes;
  return cudaSuccess;
}

bool inside(const Blocks& blocks, const void* data) {
  auto next = blocks.upper_bound(data);
  if (next == blocks.begin()) return false;
  const auto& [start, block] = *--next;
  return data < static_cast<const std::byte*>(start) + block.bytes;
}

// Memory of the host that the device cannot reach by itself.
bool pageable(const void* data) {
  const std::lock_guard lock(mutex);
  return !inside(device_memory, data) && !inside(pinned_memory, data) && !inside(registered, data);
}

// -1: of none.
int owner_of(const void* data) {
  const std::lock_guard lock(mutex);
  const auto block = device_memory.find(data);
  return block == device_memory.end() ? -1 : block->second.device;
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  open_range(to, bytes);
  open_range(from, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace

std::string describe(const void* data) {
  const std::lock_guard lock(mutex);
  if (!inside(device_memory, data)) return "memory outside of any block";
  const auto& [start, block] = *--device_memory.upper_bound(data);
  return fmt::format("byte {} of a block of {} bytes of device {}",
                     static_cast<const std::byte*>(data) - static_cast<const std::byte*>(start),
                     block.bytes, block.device);
}

}  // namespace hlite::emulation

using namespace hlite::emulation;  // NOLINT: the functions below are those of the C interface

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return allocate_on_device(data, bytes, /*of_pool=*/false);
}
cudaError_t cudaFree(void* data) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  const std::exception_ptr failure = wait_to_free([&] {
    if (data) StreamQueues::let_kernels_end("cudaFree");
    if (const int device = owner_of(data); device >= 0) StreamQueues::finish_device(device);
  });
  const cudaError_t error = release(data, device_memory, machine().device_blocks);
  if (failure) std::rethrow_exception(failure);
  return error;
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  return allocate_on_device(data, bytes, /*of_pool=*/true);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) {
    if (error == cudaErrorLaunchFailure)  // it goes with the device's context
      (void)release(data, device_memory, machine().device_blocks);
    return error;
  }
  if (machine().order == StreamOrder::kAtOnce || capturing())
    return release(data, device_memory, machine().device_blocks);
  submit(
      stream, [data] { (void)release(data, device_memory, machine().device_blocks); }, "free");
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return allocate(data, {bytes}, pinned_memory, machine().pinned_blocks);
}
cudaError_t cudaFreeHost(void* data) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  const std::exception_ptr failure = wait_to_free([] {
    StreamQueues::let_kernels_end("cudaFreeHost");
    StreamQueues::finish_all();
  });
  const cudaError_t error = release(data, pinned_memory, machine().pinned_blocks);
  if (failure) std::rethrow_exception(failure);
  return error;
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  if (!data || bytes == 0) return keep(cudaErrorInvalidValue);
  if (const cudaError_t error = outcome(true); error != cudaSuccess) return error;
  StreamQueues::let_kernels_end("cudaHostRegister");
  const std::lock_guard lock(mutex);
  const void* const last = static_cast<const std::byte*>(data) + bytes - 1;
  if (inside(registered, data) || registered.upper_bound(data) != registered.upper_bound(last))
    return keep(cudaErrorHostMemoryAlreadyRegistered);  // blocks of one page may be apart
  registered.emplace(data, Block{bytes});
  ++machine().registered_blocks;
  return cudaSuccess;
}
// Sanitizers see here what was freed too early; others may be writing to it meanwhile.
__attribute__((no_sanitize_thread)) static void touch(void* data) {
  static_cast<void>(*static_cast<volatile std::byte*>(data));
}
cudaError_t cudaHostUnregister(void* data) {
  if (const cudaError_t error = check_not_capturing(); error != cudaSuccess) return error;
  StreamQueues::let_kernels_end("cudaHostUnregister");
  const std::lock_guard lock(mutex);
  if (registered.erase(data) == 0) return keep(cudaErrorHostMemoryNotRegistered);
  --machine().registered_blocks;
  touch(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *total = machine().memory_bytes;
  *free = *total - std::min(*total, machine().device_bytes[static_cast<size_t>(current_device())]);
  return outcome(true);
}
static void put_copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  constexpr const char* kName = "copy";
  if (machine().order == StreamOrder::kAtOnce || capturing())
    return submit(
        stream, [=] { copy_bytes(to, from, bytes); }, kName);
  // Pageable memory has been read when the call returns, and has been written, too.
  if (pageable(from)) {
    const auto* const first = static_cast<const std::byte*>(from);
    submit(
        stream,
        [to, kept = std::vector<std::byte>(first, first + bytes)] {
          copy_bytes(to, kept.data(), kept.size());
        },
        kName);
  } else {
    submit(
        stream, [=] { copy_bytes(to, from, bytes); }, kName);
  }
  if (pageable(to)) StreamQueues::finish(StreamQueues::end(queue_of(stream)));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = check_fault_on(stream, "copy"); error != cudaSuccess) return error;
  check_reach(device_of(stream), "a copy", to, bytes);
  check_reach(device_of(stream), "a copy", from, bytes);
  put_copy(to, from, bytes, stream);
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  check_reach(to_device, "the end of a peer copy", to, bytes);
  check_reach(from_device, "the start of a peer copy", from, bytes);
  put_copy(to, from, bytes, stream);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = check_stream(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = check_fault_on(stream, "set memory"); error != cudaSuccess)
    return error;
  check_reach(device_of(stream), "setting memory", data, bytes);
  submit(
      stream,
      [=] {
        open_range(data, bytes);
        std::memset(data, byte, bytes);
      },
      "set memory");
  return cudaSuccess;
}
