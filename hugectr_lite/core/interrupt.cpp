#include "hugectr_lite/core/interrupt.h"

#include <atomic>
#include <csignal>

namespace hlite {
namespace {
// The one global of the program: a signal handler can reach nothing else.
// Every rank's thread reads it.
std::atomic<int> requested_flag{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void request_stop(int signal_number) {
  requested_flag = 1;
  std::signal(signal_number, SIG_DFL);
}
}  // namespace

InterruptGuard::InterruptGuard() {
  requested_flag = 0;
  sigaction(SIGINT, nullptr, &interrupt_);
  sigaction(SIGTERM, nullptr, &terminate_);
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool InterruptGuard::requested() { return requested_flag != 0; }

}  // namespace hlite
