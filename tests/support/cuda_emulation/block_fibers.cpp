#include "tests/support/cuda_emulation/block_fibers.h"

#include <fmt/core.h>

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/block_scheduler.h"

namespace hlite::emulation {

Place here;

namespace {

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

}  // namespace

void set_order(Order order, uint64_t seed) {
  const std::lock_guard lock(block_scheduler.mutex());
  block_scheduler.set_order(order, seed);
}

void run_grid(Triple grid, Triple block, size_t shared_bytes, FunctionRef<void()> body) {
  const std::lock_guard lock(block_scheduler.mutex());
  here.grid_dim = grid;
  here.block_dim = block;
  SharedMemory shared(shared_bytes);
  here.shared = shared.data();
  here.shared_bytes = shared_bytes;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        shared.scribble();
        here.block = {x, y, z};
        block_scheduler.run_block(block, body);
      }
  here.shared = nullptr;
}

void block_barrier(std::source_location site) {
  Fiber& self = block_scheduler.current();
  self.what = "__syncthreads";
  self.site = site;
  block_scheduler.wait(FiberState::kAtBarrier);
}

Exchange exchange(const char* what, unsigned mask, uint64_t value, unsigned source_lane,
                  bool predicate, std::source_location site) {
  Fiber& self = block_scheduler.current();
  self.what = what;
  self.site = site;
  self.mask = mask;
  self.value = value;
  self.source_lane = source_lane;
  self.predicate = predicate;
  block_scheduler.wait(FiberState::kAtExchange);
  return self.result;
}

void gather(const char* what, const void* mine, void* all, size_t bytes,
            std::source_location site) {
  Fiber& self = block_scheduler.current();
  self.mine = mine;
  self.all = all;
  self.bytes = bytes;
  exchange(what, 0xffffffffu, 0, lane(), false, site);
  self.bytes = 0;
}

bool in_fiber() { return block_scheduler.running(); }
void end_fiber(std::exception_ptr&& error) { block_scheduler.end(std::move(error)); }

unsigned linear_thread() {
  const Triple &t = here.thread, &d = here.block_dim;
  return t.x + d.x * (t.y + d.y * t.z);
}

unsigned lane() { return linear_thread() % kWarpSize; }

void copy_async(void* to, const void* from, size_t bytes) {
  const auto misses = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % bytes != 0; };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || misses(to) || misses(from))
    throw EmulationError(
        fmt::format("asynchronous copy: expected 4, 8 or 16 bytes, so aligned, found {} bytes from "
                    "{} to {}",
                    bytes, from, to));
  const bool at_once = block_scheduler.order() == Order::kReverse;
  if (at_once) std::memcpy(to, from, bytes);
  block_scheduler.current().open_copies.push_back({to, from, at_once ? 0 : bytes});
}

void commit_copies() {
  Fiber& self = block_scheduler.current();
  self.copies.push_back(std::exchange(self.open_copies, {}));
}

void wait_for_copies(size_t pending) {
  for (auto& groups = block_scheduler.current().copies; groups.size() > pending; groups.pop_front())
    for (const AsyncCopy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace hlite::emulation
