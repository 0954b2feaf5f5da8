// SIGINT, SIGTERM, SIGHUP (its terminal is gone; not under nohup) and SIGUSR1 (which mpirun hands
// on and Slurm may send in time): ask once to finish what is in hand, save and leave; the same
// signal again ends the process at once.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace hlite {

class InterruptGuard {
 public:
  InterruptGuard();   // installs the handlers
  ~InterruptGuard();  // puts the previous ones back; the outermost guard forgets a request
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool requested();
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

 private:
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

// Waits until `fd`, of a pipe or the like, can be read from or is at its end, for whoever has to
// read from what may give nothing for ever. Throws InterruptedError "<name>: interrupted ..." once a
// guard's signal has come.
void wait_readable(int fd, const std::string& name);

// While it lives, writing to a closed pipe fails instead of ending the process:
// a run is worth more than its lines of progress.
class BrokenPipeGuard {
 public:
  BrokenPipeGuard();
  ~BrokenPipeGuard();
  BrokenPipeGuard(const BrokenPipeGuard&) = delete;
  BrokenPipeGuard& operator=(const BrokenPipeGuard&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace hlite
