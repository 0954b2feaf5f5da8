// A thread of an emulated block, and the block's shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>
#include <source_location>
#include <vector>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/fiber_stack.h"

namespace hlite::emulation {

struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes;
  bool done;  // it took no time
};

enum class FiberState { kReady, kAtBarrier, kAtClusterBarrier, kAtExchange, kEnded };

// A stack that threads of a block run on, one after another as long as none has to wait: the one
// that waits keeps it.
struct Carrier {
  FiberStack stack;
  Track track{stack};
};

struct Fiber {
  Carrier* carrier = nullptr;  // from its first turn until it has ended
  FiberState state = FiberState::kReady;
  Triple thread;
  unsigned rank = 0;  // of its block in the cluster
  // The name of what it waits for.
  const char* what = "";
  std::source_location site;
  unsigned mask = 0;
  unsigned source_lane = 0;
  bool predicate = false;
  bool orders_memory = false;  // of the warp's threads
  uint64_t value = 0;
  Exchange result;
  // In a gather: its value, and where the values of all lanes go.
  const void* mine = nullptr;
  void* all = nullptr;
  size_t bytes = 0;
  // Copies not yet waited for: those of the open group, and groups, oldest first.
  std::vector<AsyncCopy> open_copies;
  std::deque<std::vector<AsyncCopy>> copies;
};

// Dynamic shared memory of a grid's blocks, exactly as long as asked for, so that AddressSanitizer
// sees the first byte too many.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  void scribble() { std::memset(data_, 0xFF, bytes_); }
  ~SharedMemory() { ::operator delete(data_, bytes_, kAlignment); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{128};
  size_t bytes_;
  std::byte* data_;
};

}  // namespace hlite::emulation
