// The threads of an emulated block, as they take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/block_fibers.h"
#include "tests/support/cuda_emulation/fiber_stack.h"

namespace hlite::emulation {

struct AsyncCopy {
  void* to;
  const void* from;
  size_t bytes;
};

enum class FiberState { kReady, kAtBarrier, kAtExchange, kEnded };

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
  // What it waits for.
  const char* what = "";
  std::source_location site;
  unsigned mask = 0;
  unsigned source_lane = 0;
  bool predicate = false;
  uint64_t value = 0;
  Exchange result;
  // Of a gather: what it shows, and where it wants what all lanes show.
  const void* mine = nullptr;
  void* all = nullptr;
  size_t bytes = 0;
  // Copies not yet waited for: those of the open group, and groups, oldest first.
  std::vector<AsyncCopy> open_copies;
  std::deque<std::vector<AsyncCopy>> copies;
};

// The blocks of all grids run here, one after the other.
class BlockScheduler {
 public:
  void run_block(Triple block_dim, FunctionRef<void()> body);
  void wait(FiberState state) {
    current_->state = state;
    current_->carrier->track.switch_to(main_);
  }
  [[nodiscard]] Fiber& current() const { return *current_; }
  [[nodiscard]] bool running() const { return current_ != nullptr; }
  [[noreturn]] void end(std::exception_ptr&& error);
  void set_order(Order order, uint64_t seed) {
    order_ = order;
    random_.seed(seed);
  }
  [[nodiscard]] Order order() const { return order_; }
  std::mutex& mutex() { return mutex_; }

 private:
  static void enter();
  void prepare(Triple block_dim);
  Carrier& idle_carrier();
  void give_turn(Fiber& fiber, Carrier& carrier);
  bool goes_on_with_next();
  void finish_thread();
  void resume(Fiber& fiber);
  bool release();
  bool release_barrier();
  bool release_warp(size_t first, size_t last);
  void finish_exchange(size_t first, size_t last, unsigned lanes);
  [[noreturn]] void fail_stuck();
  [[noreturn]] static void fail(const std::string& text);
  static std::string whereabouts(const Fiber& fiber);

  std::mutex mutex_;
  std::deque<Fiber> fibers_;  // grows to the largest block seen
  size_t count_ = 0;          // threads of this block
  size_t ended_ = 0;          // of these
  Triple block_dim_;          // of fibers_[...].thread
  std::vector<size_t> turns_;
  size_t turn_ = 0;  // the next one of these
  std::deque<Carrier> carriers_;
  std::vector<Carrier*> idle_;
  Track main_;
  Fiber* current_ = nullptr;
  const FunctionRef<void()>* body_ = nullptr;
  std::exception_ptr error_;
  Order order_ = Order::kForward;
  std::mt19937_64 random_;
};

extern BlockScheduler block_scheduler;

}  // namespace hlite::emulation
