// The ELU kernels against the definition, on every CUDA backend.
#include "hugectr_lite/ops/elu.h"
#include "tests/cuda/typed_values.h"

namespace hlite::test {
namespace {

TEMPLATE_TEST_CASE("ELU kernels agree with the definition, in place too", "", float, bf16, fp16) {
  using T = TestType;
  constexpr float kAlpha = 0.75f;
  // Forward and backward compute in float, a few roundings of it, and round to T once (fp16: to
  // multiples of 2^-24 at least).
  const Tolerance tolerance = {std::is_same_v<T, fp16> ? 0x1p-25 : 0.0,
                               kRounding<T> + 4 * kRounding<float>};
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    for (const int64_t n : kKernelSizes) {
      for (const int64_t offset : {0, 1}) {
        INFO(backend.name << ", n " << n << ", offset " << offset);
        const auto x = values_of<T>(n, 1), dy = values_of<T>(n, 2);
        const DeviceValues<T> dx_in(on, x, offset), ddy(on, dy, offset);
        const DeviceValues<T> y(on, x.size(), offset), dx(on, x.size(), offset);
        ops::activation_forward<T>(on.exec(), ops::Elu{kAlpha}, {dx_in.data(), n}, {y.data(), n});
        const auto got_y = y.host();
        std::vector<double> want_y, want_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          const double v = x[i], out = got_y[i];
          want_y.push_back(v > 0 ? v : kAlpha * std::expm1(v));
          want_dx.push_back(v > 0 ? dy[i] : dy[i] * (out + kAlpha));
        }
        check_close(std::span<const float>(got_y), std::span<const double>(want_y), tolerance);
        ops::activation_backward<T>(on.exec(), ops::Elu{kAlpha}, {y.data(), n}, {ddy.data(), n},
                                    {dx.data(), n});
        const auto got_dx = dx.host();
        check_close(std::span<const float>(got_dx), std::span<const double>(want_dx), tolerance);

        ops::activation_forward<T>(on.exec(), ops::Elu{kAlpha}, {dx_in.data(), n},
                                   {dx_in.data(), n});
        CHECK(same_values(dx_in.host(), got_y));
        ops::activation_backward<T>(on.exec(), ops::Elu{kAlpha}, {y.data(), n}, {ddy.data(), n},
                                    {ddy.data(), n});
        CHECK(same_values(ddy.host(), got_dx));
      }
    }
  }
}

TEMPLATE_TEST_CASE("ELU kernels let NaN and infinity through", "", float, bf16, fp16) {
  for (const CudaBackend& backend : cuda_backends()) {
    const OnBackend on(*backend.table);
    const DeviceValues<TestType> x(on, {NAN, INFINITY, -INFINITY});
    ops::activation_forward<TestType>(on.exec(), ops::Elu{0.5f}, {x.data(), 3}, {x.data(), 3});
    CHECK(same_values(x.host(), {NAN, INFINITY, -0.5f}));
  }
}

TEST_CASE("ELU kernels give the same bits in any order of threads") {
  const auto x = values_of<bf16>(4099, 1);
  check_any_order([&] {
    const OnBackend on(emulated_cuda());
    const DeviceValues<bf16> y(on, x);
    ops::activation_forward<bf16>(on.exec(), ops::Elu{1.0f}, {y.data(), 4099}, {y.data(), 4099});
    return y.host();
  });
}

}  // namespace
}  // namespace hlite::test
