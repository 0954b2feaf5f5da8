// The ReLU kernels against the definition, on every CUDA backend.
#include "hugectr_lite/ops/relu.h"
#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

TEMPLATE_TEST_CASE("ReLU kernels agree with the definition, in place too", "", float, bf16, fp16) {
  using T = TestType;
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const int64_t n : kKernelSizes) {
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", n " << n << ", offset " << offset);
        auto x = values_of<T>(n, 1);
        for (size_t i = 0; i < x.size(); i += 4) x[i] = i % 8 == 0 ? 0.0f : -0.0f;
        const auto dy = values_of<T>(n, 2);
        std::vector<float> want_y, want_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          want_y.push_back(x[i] > 0 ? x[i] : 0.0f);
          want_dx.push_back(x[i] > 0 ? dy[i] : 0.0f);
        }
        const DeviceValues<T> dx_in(on, x, offset), ddy(on, dy, offset);
        const DeviceValues<T> y(on, x.size(), offset), dx(on, x.size(), offset);
        ops::activation_forward<T>(on.exec(), ops::Relu{}, {dx_in.data(), n}, {y.data(), n});
        CHECK(same_values(y.host(), want_y));
        ops::activation_backward<T>(on.exec(), ops::Relu{}, {y.data(), n}, {ddy.data(), n},
                                    {dx.data(), n});
        CHECK(same_values(dx.host(), want_dx));

        ops::activation_forward<T>(on.exec(), ops::Relu{}, {dx_in.data(), n}, {dx_in.data(), n});
        CHECK(same_values(dx_in.host(), want_y));
        ops::activation_backward<T>(on.exec(), ops::Relu{}, {y.data(), n}, {ddy.data(), n},
                                    {ddy.data(), n});
        CHECK(same_values(ddy.host(), want_dx));
      }
    }
  }
}

TEMPLATE_TEST_CASE("ReLU kernels let NaN and infinity through", "", float, bf16, fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    const DeviceValues<TestType> x(on, {NAN, INFINITY, -INFINITY});
    ops::activation_forward<TestType>(on.exec(), ops::Relu{}, {x.data(), 3}, {x.data(), 3});
    CHECK(same_values(x.host(), {NAN, INFINITY, 0.0f}));
  }
}

TEST_CASE("ReLU kernels give the same bits in any order of threads") {
  const auto x = values_of<bf16>(4099, 1);
  check_any_order([&] {
    const OnBackend on(emulated_cuda());
    const DeviceValues<bf16> y(on, x);
    ops::activation_forward<bf16>(on.exec(), ops::Relu{}, {y.data(), 4099}, {y.data(), 4099});
    return y.host();
  });
}

}  // namespace
}  // namespace hlite::test
