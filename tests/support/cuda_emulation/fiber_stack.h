// Stacks of fibers, and how a thread of the operating system goes from one to another.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace hlite::emulation {

// A stack with an unmapped page below it, so that an overflow faults instead of corrupting.
class FiberStack {
 public:
  static constexpr size_t kBytes = size_t{256} << 10;
  FiberStack();
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;
  [[nodiscard]] void* bottom() const;

 private:
  void* base_;
};

// ThreadSanitizer sees all tracks of a thread as that thread, since only one runs at a time, and
// fibers of its own would cost half of the time: so calls and returns, which it counts, must come
// out even. Functions that a last switch leaves are not for it to count.
#define HLITE_LEFT_BY_SWITCH __attribute__((no_sanitize("thread")))

// A run of code on one stack, the thread's own or a FiberStack. Reports every switch to
// AddressSanitizer.
class Track {
 public:
  Track() = default;                        // of the thread's own stack
  explicit Track(const FiberStack& stack);  // of a fiber, which must outlive it
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  // The next switch to this fiber calls `entry` on an empty stack, whatever it was left in. `entry`
  // calls entered() first, and leaves by switch_to(..., true); it does not return, nor throw.
  void begin(void (*entry)());
  // On a fiber that has just begun: learns where the stack of `caller`, who switched to it, lies.
  HLITE_LEFT_BY_SWITCH static void entered(Track& caller);
  // Leaves this track, which is the running one, for `to`. Returns when another track switches to
  // it; `last`: never.
  HLITE_LEFT_BY_SWITCH void switch_to(Track& to, bool last = false);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  void* fake_stack_ = nullptr;  // AddressSanitizer
  bool marked_ = true;          // it or an earlier user may have marked frames on the stack
};

}  // namespace hlite::emulation
