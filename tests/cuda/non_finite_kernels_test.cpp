// The kernels that look for NaN and infinity, on every CUDA backend.
#include "hugectr_lite/ops/non_finite.h"

#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

template <typename T>
int64_t first_of(const OnBackend& on, const std::vector<float>& x, int64_t offset) {
  const DeviceValues<T> values(on, x, offset);
  const auto n = static_cast<int64_t>(x.size());
  const DeviceArray<int32_t> found(on.table(), std::vector<int32_t>{0});
  ops::flag_non_finite<T>(on.exec(), {values.data(), n}, found.data());
  const int64_t first = ops::first_non_finite<T>(on.exec(), {values.data(), n});
  CHECK(found.to_host(on.stream())[0] == (first >= 0 ? 1 : 0));
  return first;
}

TEMPLATE_TEST_CASE("the scanning kernels find the first NaN or infinity", "", float, bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const int64_t n : kKernelSizes) {
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", n " << n << ", offset " << offset);
        auto x = values_of<T>(n, 1);
        REQUIRE(first_of<T>(on, x, offset) == -1);
        if (n == 0) continue;
        x[0] = to_float(from_float<T>(60000.0f));
        CHECK(first_of<T>(on, x, offset) == -1);
        for (const float bad : {NAN, INFINITY, -INFINITY}) {
          auto broken = x;
          broken[static_cast<size_t>(n - 1)] = bad;
          CHECK(first_of<T>(on, broken, offset) == n - 1);
          broken[static_cast<size_t>(n / 3)] = bad;
          CHECK(first_of<T>(on, broken, offset) == n / 3);
        }
      }
    }
  }
}

TEST_CASE("the scanning kernels find the same in any order of threads") {
  auto x = values_of<float>(4099, 1);
  for (const size_t i : {4098u, 1031u, 1032u, 2000u}) x[i] = NAN;
  check_any_order([&] {
    const OnBackend on(emulated_cuda());
    return std::vector<float>{static_cast<float>(first_of<float>(on, x, 0))};
  });
}

TEST_CASE("a flag that is set stays set") {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    const DeviceValues<float> values(on, values_of<float>(33, 1));
    const DeviceArray<int32_t> found(on.table(), std::vector<int32_t>{1});
    ops::flag_non_finite(on.exec(), {values.data(), 33}, found.data());
    CHECK(found.to_host(on.stream())[0] == 1);
  }
}

}  // namespace
}  // namespace hlite::test
