// Comparison of float arrays with a double-precision oracle.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <ranges>
#include <span>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::test {

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Fails on the first element with |got - want| > absolute + relative * |want|, naming it. NaN never
// passes. Sizes must agree.
template <typename Got, typename Want>
void check_close(std::span<Got> got, std::span<Want> want, Tolerance tolerance,
                 const char* what = "") {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    const double bound = tolerance.absolute + tolerance.relative * std::abs(w);
    if (!(std::abs(g - w) <= bound)) {
      FAIL(fmt::format("{} element {} of {}: got {:.9g}, want {:.9g}, allowed difference {:.3g}",
                       what, i, got.size(), g, w, bound));
    }
  }
  SUCCEED();
}

void check_close(const std::ranges::contiguous_range auto& got,
                 const std::ranges::contiguous_range auto& want, Tolerance tolerance,
                 const char* what = "") {
  check_close(std::span(got), std::span(want), tolerance, what);
}

// Fills with uniform numbers in [low, high), the same for the same seed.
inline void fill_random(std::span<float> out, uint64_t seed, float low = -1, float high = 1) {
  random::fill_uniform(out.data(), static_cast<int64_t>(out.size()), seed, 0, 0, low, high);
}

}  // namespace hlite::test
