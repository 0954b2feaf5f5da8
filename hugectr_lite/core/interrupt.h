// SIGINT and SIGTERM: ask once to finish what is in hand, save and leave; a second signal ends the
// process at once.
#pragma once

#include <csignal>

namespace hlite {

class InterruptGuard {
 public:
  InterruptGuard();   // installs the handlers
  ~InterruptGuard();  // puts the previous ones back
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool requested();

 private:
  struct sigaction interrupt_ = {}, terminate_ = {};  // as they were
};

}  // namespace hlite
