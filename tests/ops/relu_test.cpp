#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
constexpr int64_t kSizes[] = {0, 1, 7, 33, 1031, 40009};

TEST_CASE("relu_forward and relu_backward agree with the definition, in place too") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : kSizes) {
      auto x = test::random_values(n, 1);
      for (size_t i = 0; i < x.size(); i += 4) x[i] = 0;
      const auto dy = test::random_values(n, 2);
      std::vector<float> y(x.size(), NAN), dx(x.size(), NAN), want_y, want_dx;
      for (size_t i = 0; i < x.size(); ++i) {
        want_y.push_back(x[i] > 0 ? x[i] : 0);
        want_dx.push_back(x[i] > 0 ? dy[i] : 0);
      }
      const Vector<const float> x_view(x.data(), n), dy_view(dy.data(), n);
      activation_forward(threads.exec(), Relu{}, x_view, {y.data(), n});
      activation_backward(threads.exec(), Relu{}, {y.data(), n}, dy_view, {dx.data(), n});
      CAPTURE(count, n);
      CHECK(y == want_y);
      CHECK(dx == want_dx);

      auto in_place = dy;
      activation_backward(threads.exec(), Relu{}, {y.data(), n}, {in_place.data(), n},
                          {in_place.data(), n});
      CHECK(in_place == want_dx);
      activation_backward(threads.exec(), Relu{}, {y.data(), n}, dy_view, {y.data(), n});
      CHECK(y == want_dx);
      activation_forward(threads.exec(), Relu{}, x_view, {x.data(), n});
      CHECK(x == want_y);
    }
  }
}

TEST_CASE("relu_forward lets NaN through and turns -0 into 0") {
  test::Threads threads(1);
  const std::vector<float> x = {NAN, -0.0f, INFINITY, -INFINITY};
  std::vector<float> y(4);
  activation_forward(threads.exec(), Relu{}, {x.data(), 4}, {y.data(), 4});
  CHECK(std::isnan(y[0]));
  CHECK(!std::signbit(y[1]));
  CHECK(y[2] == INFINITY);
  CHECK(y[3] == 0);
}

TEST_CASE("relu refuses sizes that do not fit") {
  test::Threads threads(1);
  std::vector<float> m(5);
  const Vector<float> four(m.data(), 4), five(m.data(), 5);
  CHECK_THROWS_AS(activation_forward(threads.exec(), Relu{}, four, five), Error);
  CHECK_THROWS_AS(activation_backward(threads.exec(), Relu{}, four, five, five), Error);
  CHECK_THROWS_AS(activation_backward(threads.exec(), Relu{}, five, five, four), Error);
}

}  // namespace
}  // namespace hlite::ops
