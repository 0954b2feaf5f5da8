#include "hugectr_lite/comm/wait_limit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

std::chrono::milliseconds comm_time_limit() {
  const char* const text = std::getenv("HLITE_COMM_TIMEOUT");
  if (!text || !*text) return std::chrono::minutes(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !(seconds > 0 && seconds < 1e6))
    raise<CommError>("HLITE_COMM_TIMEOUT: expected seconds above 0, found '{}'", text);
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Wait::Clock::duration Wait::so_far() {
  constexpr Clock::duration kMaxCheckInterval = std::chrono::seconds(1);
  const auto now = Clock::now();
  waited_ += std::min(now - std::exchange(last_, now), kMaxCheckInterval);
  return waited_;
}

void Wait::give_up(int rank, std::string_view what) const {
  raise<TimeoutError>("rank {} has waited {} s {} (HLITE_COMM_TIMEOUT)", rank,
                      static_cast<double>(limit_.count()) / 1000, what);
}

std::string for_ranks(std::span<const int> ranks) {
  return fmt::format("for rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace hlite::comm
