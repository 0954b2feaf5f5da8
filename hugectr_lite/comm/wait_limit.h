// Limit on waits for other ranks: $HLITE_COMM_TIMEOUT seconds, 600 without.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace hlite::comm {

// Throws CommError when the variable is no positive number.
std::chrono::milliseconds comm_time_limit();

// One wait, which its owner looks at again and again. The time between two looks counts for a
// second at most: a process that was stopped for longer, by a debugger or with its whole job, has
// not waited meanwhile.
class Wait {
 public:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] Clock::duration so_far();
  // Returns true if it has lasted longer than the limit and `extra`.
  [[nodiscard]] bool too_long(std::chrono::milliseconds extra = {}) {
    return so_far() > limit_ + extra;
  }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }
  // Throws TimeoutError. `rank` is the one that waits, `what` begins with "for".
  [[noreturn]] void give_up(int rank, std::string_view what) const;
  void check(int rank, std::string_view what) {
    if (too_long()) give_up(rank, what);
  }

 private:
  const std::chrono::milliseconds limit_ = comm_time_limit();
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{};
};

// "for rank 2", "for ranks 2, 3".
std::string for_ranks(std::span<const int> ranks);

}  // namespace hlite::comm
