#include "tests/support/cuda_emulation/fiber_stack.h"

#include <sys/mman.h>

#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what a called function leaves as it was (System V ABI), keeps the stack pointer in *from,
// and goes on where `to` was kept. swapcontext() would ask the kernel for the signal mask each
// time, which dominates the cost of a switch.
extern "C" void hlite_switch_stack(void** from, void* to);
asm(R"(
.text
.local hlite_switch_stack
.type hlite_switch_stack, @function
hlite_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hlite_switch_stack, . - hlite_switch_stack
)");
#endif

namespace hlite::emulation {
namespace {

constexpr size_t kGuardBytes = 4096;

}  // namespace

FiberStack::FiberStack()
    : base_(mmap(nullptr, kBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (base_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(base_, kGuardBytes, PROT_NONE);
}

FiberStack::~FiberStack() { munmap(base_, kBytes + kGuardBytes); }

void* FiberStack::bottom() const { return static_cast<std::byte*>(base_) + kGuardBytes; }

Track::Track(const FiberStack& stack) : bottom_(stack.bottom()), bytes_(FiberStack::kBytes) {}

void Track::begin(void (*entry)()) {
#if defined(__SANITIZE_ADDRESS__)
  // Only where there may be any: marks of 256 KiB take longer than a typical kernel here.
  if (marked_) __asan_unpoison_memory_region(bottom_, bytes_);
  marked_ = true;
#endif
  fake_stack_ = nullptr;
#if defined(__x86_64__)
  // Makes the stack look as if `entry` had been called without a caller: hlite_switch_stack takes
  // six registers and returns to it.
  void** top = static_cast<void**>(const_cast<void*>(bottom_)) + bytes_ / sizeof(void*);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = const_cast<void*>(bottom_);
  context_.uc_stack.ss_size = bytes_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#endif
}

void Track::entered([[maybe_unused]] Track& caller) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &caller.bottom_, &caller.bytes_);
#endif
}

void Track::switch_to(Track& to, [[maybe_unused]] bool last) {
#if defined(__SANITIZE_ADDRESS__)
  if (last) {  // its frames, from here up
    const char* const frame = static_cast<const char*>(__builtin_frame_address(0));
    const char* const top = static_cast<const char*>(bottom_) + bytes_;
    __asan_unpoison_memory_region(frame, static_cast<size_t>(top - frame));
    marked_ = false;
  }
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#endif
#if defined(__x86_64__)
  hlite_switch_stack(&stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&context_, &to.context_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace hlite::emulation
