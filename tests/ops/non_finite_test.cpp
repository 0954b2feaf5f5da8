#include "hugectr_lite/ops/non_finite.h"

#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

// Checks that a flag says the same, and stays set.
template <typename T>
int64_t first_on(const OpDevice& on, const std::vector<float>& x, int64_t offset = 0) {
  const DeviceTensor<T> values(on, x, offset);
  const int64_t first = ops::first_non_finite<T>(on.exec(), values);
  for (const int32_t before : {0, 1}) {
    const DeviceTensor<int32_t> found(on, {before});
    ops::flag_non_finite<T>(on.exec(), values, found.data());
    CHECK(found.host()[0] == (first >= 0 ? 1 : before));
  }
  return first;
}

TEMPLATE_TEST_CASE("first_non_finite and flag_non_finite find NaN and infinity", "[gpu]", float,
                   bf16, fp16) {
  using T = TestType;
  for_each_size<T>([](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values<T>(n, 1);
    REQUIRE(first_on<T>(on, x, offset) == -1);
    if (n == 0) return;
    x[0] = kLargest<T>;
    x[static_cast<size_t>(n / 2)] = kMin<T>;
    CHECK(first_on<T>(on, x, offset) == -1);
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      auto broken = x;
      broken[static_cast<size_t>(n - 1)] = bad;
      CHECK(first_on<T>(on, broken, offset) == n - 1);
      broken[static_cast<size_t>(n / 3)] = bad;
      CHECK(first_on<T>(on, broken, offset) == n / 3);
    }
  });
}

TEST_CASE("first_non_finite finds the same on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    auto x = random_values<T>(4099, 1);
    for (const size_t i : {4098u, 1031u, 1032u, 2000u}) x[i] = NAN;
    return std::vector<float>{static_cast<float>(first_on<T>(on, x))};
  });
}

}  // namespace
}  // namespace hlite::test
