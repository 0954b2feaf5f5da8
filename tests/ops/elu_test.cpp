#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {

TEMPLATE_TEST_CASE("ELU agrees with the definition, forward and backward, in place too", "", float,
                   bf16, fp16) {
  using T = TestType;
  // A few roundings to float, then one to T. Backward computes from what T holds of y.
  const Tolerance tolerance = {double{kLeast<T>} / 2, kRounding<T> + 3 * kRounding<float>};
  for (const float alpha : {0.0f, 0.3f, 0.75f, 1.0f, 2.5f})
    for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
      if (n == kManyElements && alpha != 1) return;
      INFO("alpha " << alpha);
      auto x = random_values(n, 1);
      for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 5 == 0 ? 1e-6f : i % 3 == 0 ? 20.0f : 1.0f;
      x = as<T>(x);
      const auto dy = random_values<T>(n, 2);
      const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
      const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
      ops::activation_forward<T>(on.exec(), ops::Elu{alpha}, in, y);
      const auto got_y = y.host();
      std::vector<double> want_y, want_dx;
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], a = alpha;
        want_y.push_back(v > 0 ? v : a * std::expm1(v));
        want_dx.push_back(v > 0 ? dy[i] : dy[i] * (got_y[i] + a));
      }
      check_close(got_y, want_y, tolerance, "y");
      ops::activation_backward<T>(on.exec(), ops::Elu{alpha}, y, gradient, dx);
      const auto got_dx = dx.host();
      check_close(got_dx, want_dx, tolerance, "dx");

      ops::activation_forward<T>(on.exec(), ops::Elu{alpha}, in, in);
      CHECK(same_values(in.host(), got_y));
      ops::activation_backward<T>(on.exec(), ops::Elu{alpha}, in, gradient, in);
      CHECK(same_values(in.host(), got_dx));
      ops::activation_backward<T>(on.exec(), ops::Elu{alpha}, y, gradient, gradient);
      CHECK(same_values(gradient.host(), got_dx));
    });
}

TEMPLATE_TEST_CASE("ELU lets NaN and infinity through and ends at -alpha", "", float, bf16, fp16) {
  for (const OpDevice& on : op_devices<TestType>()) {
    INFO(on.name());
    const DeviceTensor<TestType> x(on, {NAN, INFINITY, -INFINITY, 0.0f});
    ops::activation_forward<TestType>(on.exec(), ops::Elu{0.5f}, x, x);
    CHECK(same_values(x.host(), {NAN, INFINITY, -0.5f, 0.0f}));
  }
}

TEST_CASE("ELU gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    const DeviceTensor<T> x(on, random_values<T>(4099, 1));
    ops::activation_forward<T>(on.exec(), ops::Elu{1}, x, x);
    return x.host();
  });
}

TEST_CASE("ELU refuses sizes that do not fit, and an alpha below 0") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  CHECK_THROWS_AS(ops::activation_forward(on.exec(), ops::Elu{1}, four, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Elu{1}, four, five, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Elu{1}, five, five, four), Error);
  CHECK_THROWS_AS(ops::activation_forward(on.exec(), ops::Elu{-1}, five, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Elu{NAN}, five, five, five), Error);
}

}  // namespace hlite::test
