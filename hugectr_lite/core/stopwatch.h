// Wall-clock seconds of a piece of work.
#pragma once

#include <chrono>

namespace hlite {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace hlite
