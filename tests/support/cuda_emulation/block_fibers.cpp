#include "tests/support/cuda_emulation/block_fibers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/block_thread.h"
#include "tests/support/cuda_emulation/race_check.h"

namespace hlite::emulation {

Place here;

namespace {

std::string text_of(Triple t) { return fmt::format("({},{},{})", t.x, t.y, t.z); }

std::string text_of(const std::source_location& site) {
  return fmt::format("{}:{}", site.file_name(), site.line());
}

bool same_site(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

// Runs the clusters of all grids, most of them a block, one after the other. Within a cluster,
// threads take turns: each runs until it waits or ends.
class Scheduler {
 public:
  // `first`: its first block.
  void run_cluster(Triple first, Triple block_dim, FunctionRef<void()> body);
  void wait(FiberState state) {
    current_->state = state;
    current_->carrier->track.switch_to(main_);
  }
  [[nodiscard]] Fiber& current() const { return *current_; }
  [[nodiscard]] bool running() const { return current_ != nullptr; }
  [[noreturn]] HLITE_LEFT_BY_SWITCH void end(std::exception_ptr&& error);
  void set_order(Order order, uint64_t seed) {
    order_ = order;
    random_.seed(seed);
  }
  [[nodiscard]] Order order() const { return order_; }
  [[nodiscard]] std::vector<uint64_t> turns_of_clusters(uint64_t clusters);
  std::mutex& mutex() { return mutex_; }

 private:
  HLITE_LEFT_BY_SWITCH static void enter();
  void prepare(Triple block_dim);
  Carrier& idle_carrier();
  void give_turn(Fiber& fiber, Carrier& carrier);
  bool begin_next_thread();
  void finish_thread();
  void resume(Fiber& fiber);
  void enter_block(unsigned rank);
  bool release();
  bool release_barrier(FiberState barrier, size_t first, size_t last);
  bool release_warp(unsigned rank, size_t first, size_t last);
  void finish_exchange(size_t first, size_t last, unsigned lanes);
  [[noreturn]] void fail_stuck();
  [[noreturn]] static void fail(const std::string& text);
  static std::string whereabouts(const Fiber& fiber);

  std::mutex mutex_;
  std::deque<Fiber> fibers_;   // block by block; grows to the largest cluster seen
  size_t count_ = 0;           // threads of this cluster
  size_t block_threads_ = 0;   // of each of its blocks
  Triple first_block_;         // of this cluster
  size_t ended_ = 0;           // threads that have ended
  Triple block_dim_;           // that fibers_[...].thread were computed for
  std::vector<size_t> turns_;  // indices of fibers_ in the order of their turns
  size_t turn_ = 0;            // next index of turns_
  std::deque<Carrier> carriers_;
  std::vector<Carrier*> idle_;
  Track main_;  // of run_cluster()
  Fiber* current_ = nullptr;
  const FunctionRef<void()>* body_ = nullptr;
  std::exception_ptr error_;
  Order order_ = Order::kForward;
  std::mt19937_64 random_;
};

Scheduler scheduler;

// The first function on a carrier's stack. It runs threads as long as each ends without waiting.
void Scheduler::enter() {
  Track::entered(scheduler.main_);
  std::exception_ptr error;
  try {
    do {
      (*scheduler.body_)();
      scheduler.finish_thread();
    } while (scheduler.begin_next_thread());
  } catch (...) {
    error = std::current_exception();
  }
  scheduler.end(std::move(error));
}

void Scheduler::finish_thread() {
  if (!current_->open_copies.empty() || !current_->copies.empty())
    fail(fmt::format("thread {} has ended without waiting for its copies",
                     text_of(current_->thread)));
  current_->state = FiberState::kEnded;
  ++ended_;
}

void Scheduler::end(std::exception_ptr&& error) {
  error_ = std::move(error);  // this stack is never unwound, so it must not own the exception
  Carrier& carrier = *current_->carrier;
  current_->state = FiberState::kEnded;
  idle_.push_back(&carrier);
  carrier.track.switch_to(main_, /*last=*/true);
  std::abort();  // never returns here
}

void Scheduler::prepare(Triple block_dim) {
  const size_t before = fibers_.size(), numbered = count_;
  block_threads_ = size_t{block_dim.x} * block_dim.y * block_dim.z;
  count_ = block_threads_ * here.cluster_blocks;
  while (fibers_.size() < count_) fibers_.emplace_back();
  const bool same = block_dim.x == block_dim_.x && block_dim.y == block_dim_.y &&
                    block_dim.z == block_dim_.z && before == fibers_.size() && numbered >= count_;
  for (size_t i = 0; i < count_; ++i) {
    Fiber& fiber = fibers_[i];
    if (!same) {
      const auto t = static_cast<unsigned>(i % block_threads_);
      fiber.thread = {t % block_dim.x, t / block_dim.x % block_dim.y,
                      t / block_dim.x / block_dim.y};
      fiber.rank = static_cast<unsigned>(i / block_threads_);
    }
    fiber.state = FiberState::kReady;
    fiber.carrier = nullptr;
    fiber.bytes = 0;
    fiber.orders_memory = false;
    // A block that failed may have left copies.
    if (!fiber.open_copies.empty()) fiber.open_copies.clear();
    if (!fiber.copies.empty()) fiber.copies.clear();
  }
  block_dim_ = block_dim;
  ended_ = 0;
  idle_.clear();
  for (Carrier& carrier : carriers_) idle_.push_back(&carrier);
  turns_.resize(count_);
  std::iota(turns_.begin(), turns_.end(), size_t{0});
  if (order_ == Order::kReverse) std::reverse(turns_.begin(), turns_.end());
}

Carrier& Scheduler::idle_carrier() {
  if (idle_.empty()) return carriers_.emplace_back();
  Carrier& carrier = *idle_.back();
  idle_.pop_back();
  return carrier;
}

void Scheduler::give_turn(Fiber& fiber, Carrier& carrier) {
  current_ = &fiber;
  fiber.carrier = &carrier;
  here.thread = fiber.thread;
  enter_block(fiber.rank);
  watch_thread(linear_thread(), carrier.stack.bottom());
}

// Called when a thread has ended. If the next turn belongs to a thread that has not begun, makes it
// current, to run on the same stack, and returns true.
bool Scheduler::begin_next_thread() {
  while (turn_ < count_ && fibers_[turns_[turn_]].state != FiberState::kReady) ++turn_;
  if (turn_ == count_ || fibers_[turns_[turn_]].carrier) return false;
  give_turn(fibers_[turns_[turn_++]], *current_->carrier);
  return true;
}

void Scheduler::resume(Fiber& fiber) {
  if (fiber.carrier) {
    give_turn(fiber, *fiber.carrier);
  } else {
    give_turn(fiber, idle_carrier());
    fiber.carrier->track.begin(&Scheduler::enter);
  }
  main_.switch_to(fiber.carrier->track);
  watch_thread(0, nullptr);
  current_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Scheduler::run_cluster(Triple first, Triple block_dim, FunctionRef<void()> body) {
  body_ = &body;
  first_block_ = first;
  prepare(block_dim);
  while (ended_ < count_) {
    if (order_ == Order::kShuffled) std::shuffle(turns_.begin(), turns_.end(), random_);
    for (turn_ = 0; turn_ < count_;) {
      Fiber& fiber = fibers_[turns_[turn_++]];
      if (fiber.state == FiberState::kReady) resume(fiber);
    }
    if (ended_ < count_ && !release()) fail_stuck();
  }
}

// Empty: from the first to the last.
std::vector<uint64_t> Scheduler::turns_of_clusters(uint64_t clusters) {
  if (order_ == Order::kForward) return {};
  std::vector<uint64_t> turns(clusters);
  std::iota(turns.begin(), turns.end(), uint64_t{0});
  if (order_ == Order::kReverse)
    std::reverse(turns.begin(), turns.end());
  else
    std::shuffle(turns.begin(), turns.end(), random_);
  return turns;
}

// Makes threads ready whose barrier or warp operation is complete. Returns false if there are none.
bool Scheduler::release() {
  if (release_barrier(FiberState::kAtClusterBarrier, 0, count_)) {
    order_cluster();
    return true;
  }
  bool any = false;
  for (unsigned rank = 0; rank < here.cluster_blocks; ++rank) {
    enter_block(rank);
    const size_t begin = rank * block_threads_, end = begin + block_threads_;
    if (release_barrier(FiberState::kAtBarrier, begin, end)) {
      order_block();
      any = true;
      continue;
    }
    for (size_t first = begin; first < end; first += kWarpSize)
      any |= release_warp(rank, first, std::min(first + kWarpSize, end));
  }
  return any;
}

void Scheduler::enter_block(unsigned rank) {
  if (here.cluster_blocks == 1) return;
  here.cluster_rank = rank;
  here.block = {first_block_.x + rank, first_block_.y, first_block_.z};
  here.shared = here.shared_of[rank];
  watch_block(rank);
}

// Every thread of the block, or of the cluster, must reach the same barrier. A thread that has ended
// never does.
bool Scheduler::release_barrier(FiberState barrier, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    const Fiber& fiber = fibers_[i];
    if (fiber.state != barrier || !same_site(fiber.site, fibers_[first].site)) return false;
  }
  for (size_t i = first; i < last; ++i) fibers_[i].state = FiberState::kReady;
  return true;
}

// Releases every group of lanes that is complete.
bool Scheduler::release_warp(unsigned rank, size_t first, size_t last) {
  bool any = false;
  for (size_t i = first; i < last; ++i) {
    const Fiber& waiter = fibers_[i];
    if (waiter.state != FiberState::kAtExchange) continue;
    if ((waiter.mask >> (i - first) & 1) == 0)
      fail(fmt::format("{} with mask {:#010x}, which lacks its own lane {}", whereabouts(waiter),
                       waiter.mask, i - first));
    unsigned lanes = 0;
    bool complete = true;
    for (size_t j = first; j < last; ++j) {
      const Fiber& other = fibers_[j];
      if ((waiter.mask >> (j - first) & 1) == 0 || other.state == FiberState::kEnded) continue;
      complete &= other.state == FiberState::kAtExchange && other.mask == waiter.mask &&
                  same_site(other.site, waiter.site);
      lanes |= 1u << (j - first);
    }
    if (!complete) continue;
    if (waiter.mask == 0xffffffffu && waiter.orders_memory)
      order_warp(static_cast<unsigned>(first - rank * block_threads_) / kWarpSize);
    finish_exchange(first, last, lanes);
    any = true;
  }
  return any;
}

// Gives the lanes in the mask `lanes` each other's values and votes, and makes them ready.
void Scheduler::finish_exchange(size_t first, size_t last, unsigned lanes) {
  unsigned votes = 0;
  for (size_t j = first; j < last; ++j)
    if (lanes >> (j - first) & 1) votes |= unsigned{fibers_[j].predicate} << (j - first);
  for (size_t j = first; j < last; ++j) {
    Fiber& fiber = fibers_[j];
    if ((lanes >> (j - first) & 1) == 0) continue;
    if ((lanes >> fiber.source_lane & 1) == 0)
      fail(fmt::format("{} and reads lane {}, which does not take part", whereabouts(fiber),
                       fiber.source_lane));
    fiber.result = {fibers_[first + fiber.source_lane].value, votes, lanes};
    fiber.state = FiberState::kReady;
    if (fiber.bytes == 0) continue;
    if (lanes != 0xffffffffu)
      fail(fmt::format("{}: expected all {} lanes of the warp", whereabouts(fiber), kWarpSize));
    for (size_t l = 0; l < kWarpSize; ++l)
      std::memcpy(static_cast<std::byte*>(fiber.all) + l * fiber.bytes, fibers_[first + l].mine,
                  fiber.bytes);
  }
}

std::string Scheduler::whereabouts(const Fiber& fiber) {
  const std::string thread = "thread " + text_of(fiber.thread);
  if (fiber.state == FiberState::kEnded) return thread + " has ended";
  return fmt::format("{} waits at {} ({})", thread, fiber.what, text_of(fiber.site));
}

void Scheduler::fail(const std::string& text) {
  throw EmulationError(fmt::format("{}: block {}: {}", here.kernel, text_of(here.block), text));
}

// Names the first thread that waits, and the first of those it waits for that has not arrived.
void Scheduler::fail_stuck() {
  size_t i = 0;
  while (fibers_[i].state == FiberState::kEnded) ++i;
  const Fiber& waiter = fibers_[i];
  enter_block(waiter.rank);
  const bool warp = waiter.state == FiberState::kAtExchange;
  size_t first = 0, last = count_;
  if (waiter.state != FiberState::kAtClusterBarrier) {
    first = waiter.rank * block_threads_;
    last = first + block_threads_;
  }
  if (warp) {
    first = i - (i - first) % kWarpSize;
    last = std::min(first + kWarpSize, last);
  }
  for (size_t j = first; j < last; ++j) {
    const Fiber& other = fibers_[j];
    const bool expected =
        !warp || ((waiter.mask >> (j - first) & 1) != 0 && other.state != FiberState::kEnded);
    const bool arrived = other.state == waiter.state && same_site(other.site, waiter.site) &&
                         (!warp || other.mask == waiter.mask);
    if (expected && !arrived)
      fail(fmt::format("divergent barrier: {}, but {}", whereabouts(waiter), whereabouts(other)));
  }
  fail(fmt::format("{}, and no thread can continue", whereabouts(waiter)));
}

}  // namespace

void set_order(Order order, uint64_t seed) {
  const std::lock_guard lock(scheduler.mutex());
  scheduler.set_order(order, seed);
}

void run_grid(const char* kernel, Triple grid, Triple block, size_t shared_bytes,
              FunctionRef<void()> body, unsigned cluster) {
  const std::lock_guard lock(scheduler.mutex());
  const WatchGrid watch(kernel);
  here.kernel = kernel;
  here.grid_dim = grid;
  here.block_dim = block;
  std::deque<SharedMemory> shared;
  for (unsigned rank = 0; rank < cluster; ++rank)
    here.shared_of[rank] = shared.emplace_back(shared_bytes).data();
  here.shared = here.shared_of[0];
  here.shared_bytes = shared_bytes;
  here.cluster_rank = 0;
  here.cluster_blocks = cluster;
  const uint64_t clusters = uint64_t{grid.x} * grid.y * grid.z / cluster;
  const std::vector<uint64_t> turns = scheduler.turns_of_clusters(clusters);
  for (uint64_t turn = 0; turn < clusters; ++turn) {
    const uint64_t number = (turns.empty() ? turn : turns[turn]) * cluster;
    for (SharedMemory& memory : shared) memory.scribble();
    here.block = {static_cast<unsigned>(number % grid.x),
                  static_cast<unsigned>(number / grid.x % grid.y),
                  static_cast<unsigned>(number / grid.x / grid.y)};
    watch_cluster(number, cluster);
    scheduler.run_cluster(here.block, block, body);
    check_cluster_end();
  }
  here.shared = nullptr;
  here.shared_bytes = 0;
}

void block_barrier(std::source_location site) {
  Fiber& self = scheduler.current();
  self.what = "__syncthreads";
  self.site = site;
  scheduler.wait(FiberState::kAtBarrier);
}

void cluster_barrier(std::source_location site) {
  Fiber& self = scheduler.current();
  self.what = "cluster_sync";
  self.site = site;
  scheduler.wait(FiberState::kAtClusterBarrier);
}

std::byte* in_block(const void* mine, unsigned rank) {
  const auto at = static_cast<size_t>(static_cast<const std::byte*>(mine) - here.shared);
  if (rank >= here.cluster_blocks || at >= here.shared_bytes)
    throw EmulationError(fmt::format(
        "expected one of the {} blocks of a cluster and an address in dynamic shared memory, found "
        "block {} and byte {} of {}",
        here.cluster_blocks, rank, at, here.shared_bytes));
  return here.shared_of[rank] + at;
}

void warp_barrier(unsigned mask, std::source_location site) {
  scheduler.current().orders_memory = true;
  exchange("__syncwarp", mask, 0, lane(), false, site);
  scheduler.current().orders_memory = false;
}

Exchange exchange(const char* what, unsigned mask, uint64_t value, unsigned source_lane,
                  bool predicate, std::source_location site) {
  Fiber& self = scheduler.current();
  self.what = what;
  self.site = site;
  self.mask = mask;
  self.value = value;
  self.source_lane = source_lane;
  self.predicate = predicate;
  scheduler.wait(FiberState::kAtExchange);
  return self.result;
}

void gather(const char* what, const void* mine, void* all, size_t bytes,
            std::source_location site) {
  Fiber& self = scheduler.current();
  self.mine = mine;
  self.all = all;
  self.bytes = bytes;
  exchange(what, 0xffffffffu, 0, lane(), false, site);
  self.bytes = 0;
}

bool in_fiber() { return scheduler.running(); }
void end_fiber(std::exception_ptr&& error) { scheduler.end(std::move(error)); }

unsigned linear_thread() {
  const Triple &t = here.thread, &d = here.block_dim;
  return t.x + d.x * (t.y + d.y * t.z);
}

unsigned lane() { return linear_thread() % kWarpSize; }

void copy_async(void* to, const void* from, size_t bytes) {
  const auto misaligned = [&](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % bytes != 0;
  };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || misaligned(to) || misaligned(from))
    throw EmulationError(
        fmt::format("asynchronous copy: expected 4, 8 or 16 bytes, aligned to their size, "
                    "found {} bytes from {} to {}",
                    bytes, from, to));
  note_access(from, bytes, Access::kRead, __builtin_return_address(0));
  note_access(to, bytes, Access::kWrite, __builtin_return_address(0));
  // One order copies at once, which reveals a kernel that overwrites what other threads still read.
  const bool at_once = scheduler.order() == Order::kReverse;
  if (at_once) std::memcpy(to, from, bytes);
  scheduler.current().open_copies.push_back({to, from, bytes, at_once});
}

void commit_copies() {
  Fiber& self = scheduler.current();
  self.copies.push_back(std::exchange(self.open_copies, {}));
}

void wait_for_copies(size_t pending) {
  for (auto& groups = scheduler.current().copies; groups.size() > pending; groups.pop_front())
    for (const AsyncCopy& copy : groups.front()) {
      note_access(copy.to, copy.bytes, Access::kWrite, __builtin_return_address(0));
      if (!copy.done) std::memcpy(copy.to, copy.from, copy.bytes);
    }
}

}  // namespace hlite::emulation
