// The dropout kernel against the counter-based random numbers, on every CUDA backend.
#include "hugectr_lite/ops/dropout.h"

#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

constexpr float kRate = 0.3f;
constexpr uint64_t kSeed = 42, kStream = 7;
constexpr int64_t kStep = 5;

template <typename T>
std::vector<float> want_of(const std::vector<float>& x, int64_t first_element) {
  std::vector<float> want;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t index = (uint64_t{kStep} << 40) + static_cast<uint64_t>(first_element) + i;
    const bool kept = random::uniform(random::word(kSeed, kStream, index)) >= kRate;
    want.push_back(kept ? to_float(from_float<T>(x[i] * (1 / (1 - kRate)))) : 0.0f);
  }
  return want;
}

template <typename T>
void check(const OnBackend& on, int64_t n, int64_t first_element, int64_t offset) {
  const DeviceArray<int64_t> step(on.table(), std::vector<int64_t>{kStep});
  const ops::DropoutMask mask{.rate = kRate,
                              .seed = kSeed,
                              .stream = kStream,
                              .step = step.data(),
                              .first_element = first_element};
  const auto x = values_of<T>(n, 1);
  const auto want = want_of<T>(x, first_element);
  const DeviceValues<T> from(on, x, offset), y(on, x.size(), offset), dx(on, x.size(), offset);
  ops::dropout_forward<T>(on.exec(), {from.data(), n}, {y.data(), n}, mask);
  CHECK(same_values(y.host(), want));
  ops::dropout_backward<T>(on.exec(), {from.data(), n}, {dx.data(), n}, mask);
  CHECK(same_values(dx.host(), want));
  ops::dropout_forward<T>(on.exec(), {from.data(), n}, {from.data(), n}, mask);
  CHECK(same_values(from.host(), want));
}

TEMPLATE_TEST_CASE("the dropout kernel follows the random numbers of the step", "", float, bf16,
                   fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const int64_t n : kKernelSizes)
      for (const int64_t first : {0, 1, 3, 4, 6, 8, 1029})
        for (const int64_t offset : {0, 1}) {
          INFO(backend.name << ", n " << n << " from " << first << ", offset " << offset);
          check<TestType>(on, n, first, offset);
        }
  }
}

TEST_CASE("the dropout kernel gives the same bits in any order of threads") {
  const auto x = values_of<bf16>(4099, 1);
  check_any_order([&] {
    const OnBackend on(emulated_cuda());
    const DeviceArray<int64_t> step(on.table(), std::vector<int64_t>{kStep});
    const DeviceValues<bf16> y(on, x);
    ops::dropout_forward<bf16>(on.exec(), {y.data(), 4099}, {y.data(), 4099},
                               {.rate = 0.5f, .step = step.data(), .first_element = 3});
    return y.host();
  });
}

}  // namespace
}  // namespace hlite::test
