// SIGINT and SIGTERM: ask once to finish the iteration, save and leave; a second signal ends the
// process at once.
#pragma once

namespace hlite::trainer {

class InterruptGuard {
 public:
  InterruptGuard();   // installs the handlers
  ~InterruptGuard();  // puts the previous ones back
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool requested();
};

}  // namespace hlite::trainer
