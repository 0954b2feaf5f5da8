#include "hugectr_lite/core/interrupt.h"

#include <poll.h>

#include <atomic>
#include <csignal>

#include "hugectr_lite/core/error.h"

namespace hlite {
namespace {
// The one global of the program: a signal handler can reach nothing else.
// Every rank's thread reads it.
std::atomic<int> requested_flag{0};
std::atomic<int> guards{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void request_stop(int signal_number) {
  requested_flag = 1;
  std::signal(signal_number, SIG_DFL);
}
}  // namespace

InterruptGuard::InterruptGuard() {
  if (guards++ == 0) requested_flag = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    // nohup: the terminal may go, the program goes on.
    const bool ignored = kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN;
    if (!ignored) std::signal(kSignals[i], request_stop);
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  if (--guards == 0) requested_flag = 0;
}

bool InterruptGuard::requested() { return requested_flag != 0; }

void wait_readable(int fd, const std::string& name) {
  // Any thread may get the signal, so that it need not end this call.
  constexpr int kLookMilliseconds = 100;
  pollfd look{.fd = fd, .events = POLLIN, .revents = 0};
  while (::poll(&look, 1, kLookMilliseconds) <= 0)
    if (InterruptGuard::requested())
      raise<InterruptedError>("{}: interrupted while waiting for more of it", name);
}

BrokenPipeGuard::BrokenPipeGuard() {
  sigaction(SIGPIPE, nullptr, &before_);
  std::signal(SIGPIPE, SIG_IGN);
}

BrokenPipeGuard::~BrokenPipeGuard() { sigaction(SIGPIPE, &before_, nullptr); }

}  // namespace hlite
