// The kernel of sums against sums in double, on every CUDA backend.
#include "hugectr_lite/ops/add.h"

#include <memory>

#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

template <typename T>
struct Terms {
  std::vector<std::vector<float>> values;
  std::vector<double> sums, sizes;  // sum of the terms, and of their absolute values

  Terms(int64_t count, int64_t n) : sums(static_cast<size_t>(n)), sizes(static_cast<size_t>(n)) {
    for (int64_t t = 0; t < count; ++t) {
      values.push_back(values_of<T>(n, static_cast<uint64_t>(t)));
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += values.back()[i];
        sizes[i] += std::abs(values.back()[i]);
      }
    }
  }
};

// Into a buffer of its own, or in place of the first term.
template <typename T>
std::vector<float> run(const cuda::Backend& table, const Terms<T>& terms, int64_t offset,
                       bool in_place) {
  const OnBackend on(table);
  const auto n = static_cast<int64_t>(terms.sums.size());
  std::vector<std::unique_ptr<DeviceValues<T>>> on_device;
  std::vector<Vector<const T>> inputs;
  for (const auto& v : terms.values) {
    // The last term alone is out of line: one pointer decides for all.
    const bool last = on_device.size() + 1 == terms.values.size();
    on_device.push_back(std::make_unique<DeviceValues<T>>(on, v, last ? offset : 0));
    inputs.emplace_back(on_device.back()->data(), n);
  }
  const DeviceValues<T> separate(on, terms.sums.size());
  const DeviceValues<T>& out = in_place ? *on_device[0] : separate;
  ops::add_forward<T>(on.exec(), inputs, {out.data(), n});
  return out.host();
}

TEMPLATE_TEST_CASE("the kernel of sums agrees with sums in double", "", float, bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    for (const int64_t count : {1, 2, 5, 64, 65, 130}) {
      for (const int64_t n : {0, 1, 7, 33, 1031}) {
        const Terms<T> terms(count, n);
        const auto passes = static_cast<double>(1 + (count - 2) / 63);
        for (const int64_t offset : {0, 1}) {
          for (const bool in_place : {false, true}) {
            INFO(backend.name << ", " << count << " terms of " << n << ", offset " << offset);
            const auto got = run(*backend.table, terms, offset, in_place);
            REQUIRE(got.size() == terms.sums.size());
            for (size_t i = 0; i < got.size(); ++i) {
              // A rounding to T after each pass, one to float for each term.
              const double bound =
                  terms.sizes[i] * (passes * kRounding<T> + static_cast<double>(count) * 0x1p-24);
              const double error = std::abs(static_cast<double>(got[i]) - terms.sums[i]);
              if (!(error <= bound)) FAIL("element " << i << ": off by " << error);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the kernel of sums gives the same bits in any order of threads") {
  const Terms<bf16> terms(65, 1031);
  check_any_order([&] { return run(emulated_cuda(), terms, 0, true); });
}

}  // namespace
}  // namespace hlite::test
