#include "hugectr_lite/ops/non_finite.h"

#include <limits>

#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

TEST_CASE("first_non_finite finds the first NaN or infinity") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 257, 1031, 100003}) {
      auto x = test::random_values(n, 1);
      const Vector<const float> view(x.data(), n);
      CAPTURE(count, n);
      REQUIRE(first_non_finite(threads.exec(), view) == -1);
      if (n == 0) continue;
      x[0] = std::numeric_limits<float>::max();
      x[static_cast<size_t>(n / 2)] = std::numeric_limits<float>::denorm_min();
      CHECK(first_non_finite(threads.exec(), view) == -1);
      for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        const auto last = static_cast<size_t>(n - 1), middle = static_cast<size_t>(n / 3);
        x[last] = bad;
        CHECK(first_non_finite(threads.exec(), view) == n - 1);
        x[middle] = bad;
        CHECK(first_non_finite(threads.exec(), view) == n / 3);
        x[last] = x[middle] = 1;
      }
    }
  }
}

TEST_CASE("flag_non_finite sets a flag and leaves one that is set") {
  test::Threads threads(2);
  auto x = test::random_values(100003, 1);
  const Vector<const float> view(x.data(), 100003);
  int32_t found = 0;
  flag_non_finite(threads.exec(), view, &found);
  CHECK(found == 0);
  x[70001] = INFINITY;
  flag_non_finite(threads.exec(), view, &found);
  CHECK(found == 1);
  x[70001] = 0;
  flag_non_finite(threads.exec(), view, &found);
  CHECK(found == 1);
}

}  // namespace
}  // namespace hlite::ops
