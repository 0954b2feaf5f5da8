#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
using test::span_of;

TEST_CASE("elu_forward and elu_backward agree with the definition, in place too") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 33, 1031, 40009}) {
      for (const float alpha : {0.0f, 0.3f, 1.0f, 2.5f}) {
        CAPTURE(count, n, alpha);
        auto x = test::random_values(n, 1);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] *= i % 5 == 0 ? 1e-6f : i % 3 == 0 ? 20.0f : 1.0f;
        const auto dy = test::random_values(n, 2);
        std::vector<float> y(x.size(), NAN), dx(x.size(), NAN);
        std::vector<double> want_y, want_dx;
        for (size_t i = 0; i < x.size(); ++i) {
          const double v = x[i], a = alpha;
          want_y.push_back(v > 0 ? v : a * std::expm1(v));
          want_dx.push_back(v > 0 ? dy[i] : dy[i] * a * std::exp(v));
        }
        const Vector<const float> x_view(x.data(), n), dy_view(dy.data(), n);
        activation_forward(threads.exec(), Elu{alpha}, x_view, {y.data(), n});
        activation_backward(threads.exec(), Elu{alpha}, {y.data(), n}, dy_view, {dx.data(), n});
        // Two roundings; y's are relative to alpha in the gradient, which is y + alpha.
        test::check_close(span_of(y), span_of(want_y), {0, 2.5e-7});
        test::check_close(span_of(dx), span_of(want_dx), {2e-7 * alpha, 1.2e-7});

        auto in_place = dy;
        activation_backward(threads.exec(), Elu{alpha}, {y.data(), n}, {in_place.data(), n},
                            {in_place.data(), n});
        CHECK(in_place == dx);
        auto over_y = y;
        activation_backward(threads.exec(), Elu{alpha}, {over_y.data(), n}, dy_view,
                            {over_y.data(), n});
        CHECK(over_y == dx);
        activation_forward(threads.exec(), Elu{alpha}, x_view, {x.data(), n});
        CHECK(x == y);
      }
    }
  }
}

TEST_CASE("elu_forward lets NaN through and ends at -alpha") {
  test::Threads threads(1);
  const std::vector<float> x = {NAN, INFINITY, -INFINITY, 0.0f};
  std::vector<float> y(4);
  activation_forward(threads.exec(), Elu{0.5f}, {x.data(), 4}, {y.data(), 4});
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == INFINITY);
  CHECK(y[2] == -0.5f);
  CHECK(y[3] == 0);
}

TEST_CASE("elu refuses sizes that do not fit, and an alpha below 0") {
  test::Threads threads(1);
  std::vector<float> m(5);
  const Vector<float> four(m.data(), 4), five(m.data(), 5);
  CHECK_THROWS_AS(activation_forward(threads.exec(), Elu{1}, four, five), Error);
  CHECK_THROWS_AS(activation_backward(threads.exec(), Elu{1}, four, five, five), Error);
  CHECK_THROWS_AS(activation_backward(threads.exec(), Elu{1}, five, five, four), Error);
  CHECK_THROWS_AS(activation_forward(threads.exec(), Elu{-1}, five, five), Error);
  CHECK_THROWS_AS(activation_backward(threads.exec(), Elu{NAN}, five, five, five), Error);
}

}  // namespace
}  // namespace hlite::ops
