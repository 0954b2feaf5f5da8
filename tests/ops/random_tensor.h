// What the op tests share: inputs of any shape, and pools of one, two and three threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "tests/support/compare.h"

namespace hlite::test {

// The CPU with `count` threads.
class Threads {
 public:
  explicit Threads(int count) : pool_(count) { exec_.pool = &pool_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }

 private:
  ThreadPool pool_;
  Exec exec_;
};

inline constexpr std::array kThreadCounts = {1, 2, 3};

// `size` uniform numbers in [-1, 1).
inline std::vector<float> random_values(int64_t size, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(size));
  fill_random(values, seed);
  return values;
}

inline std::vector<double> widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }
inline std::span<const float> span_of(const std::vector<float>& values) { return values; }
inline std::span<const double> span_of(const std::vector<double>& values) { return values; }

}  // namespace hlite::test
