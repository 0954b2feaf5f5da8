#include "hugectr_lite/ops/activation.h"

#include <array>

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

// What every activation without parameters must do, against its double-precision definition:
// value(x); slope(y) is dy/dx from what T holds of y.
template <typename T, typename F, typename Value, typename Slope>
void check_activation(const F& f, Value&& value, Slope&& slope) {
  // A few roundings to float, then one to T.
  const Tolerance tolerance = {double{kMin<T>} / 2, kRounding<T> + 8 * kRounding<float>};
  for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values(n, 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 5 == 0 ? 1e-6f : i % 3 == 0 ? 20.0f : 1.0f;
    x = as<T>(x);
    const auto dy = random_values<T>(n, 2);
    const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
    const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
    ops::activation_forward<T>(on.exec(), f, in, y);
    const auto got_y = y.host();
    std::vector<double> want_y, want_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      want_y.push_back(value(static_cast<double>(x[i])));
      want_dx.push_back(dy[i] * slope(static_cast<double>(got_y[i])));
    }
    check_close(got_y, want_y, tolerance, "y");
    ops::activation_backward<T>(on.exec(), f, y, gradient, dx);
    const auto got_dx = dx.host();
    check_close(got_dx, want_dx, tolerance, "dx");

    ops::activation_forward<T>(on.exec(), f, in, in);
    CHECK(same_values(in.host(), got_y));
    ops::activation_backward<T>(on.exec(), f, y, gradient, gradient);
    CHECK(same_values(gradient.host(), got_dx));
  });
}

// An activation whose gradient is found from x. terms(x): y / x and the two terms of the slope.
template <typename T, typename F, typename TermsOf>
void check_activation_of_input(const F& f, TermsOf&& terms) {
  // The tail is x times a small number, whose argument is rounded: up to 2^-24 x^2 in addition.
  const Tolerance tolerance = {double{kMin<T>} / 2, kRounding<T> + 256 * kRounding<float>};
  for_each_size<T>([&](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values(n, 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 5 == 0 ? 1e-6f : i % 3 == 0 ? 9.0f : 1.0f;
    x = as<T>(x);
    const auto dy = random_values<T>(n, 2);
    std::vector<double> want_y, want_dx, size_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      const std::array<double, 3> of = terms(v);
      want_y.push_back(v * of[0]);
      want_dx.push_back(dy[i] * (of[1] + of[2]));
      size_dx.push_back(std::abs(dy[i]) * (std::abs(of[1]) + std::abs(of[2])));
    }
    const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
    const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
    ops::activation_forward<T>(on.exec(), f, in, y);
    check_close(y.host(), want_y, tolerance, "y");
    ops::activation_backward<T>(on.exec(), f, in, gradient, dx);
    const auto got_dx = dx.host();
    for (size_t i = 0; i < got_dx.size(); ++i) {  // the two terms may cancel
      INFO("x " << x[i] << ", dx " << got_dx[i] << ", expected " << want_dx[i]);
      CHECK(std::abs(got_dx[i] - want_dx[i]) <= tolerance.absolute +
                                                    kRounding<T> * std::abs(want_dx[i]) +
                                                    256 * kRounding<float> * size_dx[i]);
    }
    ops::activation_backward<T>(on.exec(), f, in, gradient, gradient);
    CHECK(same_values(gradient.host(), got_dx));
    ops::activation_forward<T>(on.exec(), f, in, in);
    CHECK(same_values(in.host(), y.host()));
  });
}

// y at NaN, infinity, -infinity and 0.
template <typename T, typename F>
void check_activation_limits(const F& f, const std::vector<float>& want) {
  for (const OpDevice& on : op_devices<T>()) {
    INFO(on.name());
    const DeviceTensor<T> x(on, {NAN, INFINITY, -INFINITY, 0.0f});
    ops::activation_forward<T>(on.exec(), f, x, x);
    CHECK(same_values(x.host(), want));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("ReLU agrees with the definition, forward and backward, in place too", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  for_each_size<T>([](const OpDevice& on, int64_t n, int64_t offset) {
    auto x = random_values<T>(n, 1);
    for (size_t i = 0; i < x.size(); i += 4) x[i] = i % 8 == 0 ? 0.0f : -0.0f;
    const auto dy = random_values<T>(n, 2);
    std::vector<float> want_y, want_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      want_y.push_back(x[i] > 0 ? x[i] : 0.0f);
      want_dx.push_back(x[i] > 0 ? dy[i] : 0.0f);
    }
    const DeviceTensor<T> in(on, x, offset), gradient(on, dy, offset);
    const DeviceTensor<T> y(on, nans(n), offset), dx(on, nans(n), offset);
    ops::activation_forward<T>(on.exec(), ops::Relu{}, in, y);
    CHECK(same_values(y.host(), want_y));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, y, gradient, dx);
    CHECK(same_values(dx.host(), want_dx));

    ops::activation_forward<T>(on.exec(), ops::Relu{}, in, in);
    CHECK(same_values(in.host(), want_y));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, in, gradient, in);
    CHECK(same_values(in.host(), want_dx));
    ops::activation_backward<T>(on.exec(), ops::Relu{}, y, gradient, gradient);
    CHECK(same_values(gradient.host(), want_dx));
  });
}

TEMPLATE_TEST_CASE("ReLU lets NaN and infinity through and turns -0 into 0", "[gpu]", float, bf16,
                   fp16) {
  for (const OpDevice& on : op_devices<TestType>()) {
    INFO(on.name());
    const DeviceTensor<TestType> x(on, {NAN, -0.0f, INFINITY, -INFINITY});
    ops::activation_forward<TestType>(on.exec(), ops::Relu{}, x, x);
    CHECK(same_values(x.host(), {NAN, 0.0f, INFINITY, 0.0f}));
  }
}

TEST_CASE("ReLU gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    const DeviceTensor<T> x(on, random_values<T>(4099, 1));
    ops::activation_forward<T>(on.exec(), ops::Relu{}, x, x);
    return x.host();
  });
}

TEST_CASE("ReLU refuses sizes that do not fit") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5));
  CHECK_THROWS_AS(ops::activation_forward(on.exec(), ops::Relu{}, four, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Relu{}, four, five, five), Error);
  CHECK_THROWS_AS(ops::activation_backward(on.exec(), ops::Relu{}, five, five, four), Error);
}

TEMPLATE_TEST_CASE("ELU agrees with the definition, forward and backward, in place too", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  // A few roundings to float, then one to T. Backward computes from what T holds of y.
  const Tolerance tolerance = {double{kMin<T>} / 2, kRounding<T> + 3 * kRounding<float>};
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

TEMPLATE_TEST_CASE("ELU lets NaN and infinity through and ends at -alpha", "[gpu]", float, bf16,
                   fp16) {
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

TEMPLATE_TEST_CASE("Sigmoid agrees with the definition, forward and backward, in place too",
                   "[gpu]", float, bf16, fp16) {
  check_activation<TestType>(
      ops::Sigmoid{}, [](double x) { return 1 / (1 + std::exp(-x)); },
      [](double y) { return y * (1 - y); });
}

TEMPLATE_TEST_CASE("Sigmoid lets NaN through and ends at 0 and 1", "[gpu]", float, bf16, fp16) {
  check_activation_limits<TestType>(ops::Sigmoid{}, {NAN, 1, 0, 0.5f});
}

TEMPLATE_TEST_CASE("Sigmoids by vectors are as good, and the same in every place", "", float,
                   bf16) {
  using T = TestType;
  ThreadPool pool(2);
  const Exec exec = {.device = Device::kCpu, .pool = &pool};
  std::vector<T> x;
  for (const float of : {NAN, INFINITY, -INFINITY, -87.5f, -89.0f, 0.0f, 100.0f})
    x.push_back(from_float<T>(of));
  for (int i = 0; i < 20000; ++i) x.push_back(from_float<T>(static_cast<float>(i - 10000) / 300));
  const auto n = std::ssize(x);
  std::vector<T> y(x.size()), one(1);
  ops::sigmoid_by_vectors<T>(exec, {x.data(), n}, {y.data(), n});
  CHECK(std::isnan(to_float(y[0])));
  CHECK(to_float(y[1]) == 1);
  CHECK(to_float(y[2]) < 1e-37f);
  const double tolerance = std::is_same_v<T, float> ? 5e-7 : 4e-3;
  for (size_t i = 3; i < x.size(); ++i) {
    const double want = 1 / (1 + std::exp(-static_cast<double>(to_float(x[i]))));
    REQUIRE(std::abs(static_cast<double>(to_float(y[i])) - want) <= tolerance * want + 1e-37);
    ops::sigmoid_by_vectors<T>(exec, {&x[i], 1}, {one.data(), 1});
    REQUIRE(to_float(one[0]) == to_float(y[i]));
  }
}

TEMPLATE_TEST_CASE("Tanh agrees with the definition, forward and backward, in place too", "[gpu]",
                   float, bf16, fp16) {
  check_activation<TestType>(
      ops::Tanh{}, [](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; });
}

TEMPLATE_TEST_CASE("GELU and SiLU agree with the definition, forward and backward, in place too",
                   "[gpu]", float, bf16, fp16) {
  check_activation_of_input<TestType>(ops::Gelu{}, [](double x) {
    const double share = 0.5 * std::erfc(-x / std::sqrt(2.0)),
                 density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    return std::array<double, 3>{share, share, x * density};
  });
  check_activation_of_input<TestType>(ops::Silu{}, [](double x) {
    const double s = 1 / (1 + std::exp(-x));
    return std::array<double, 3>{s, s, x * s * (1 - s)};
  });
}

TEMPLATE_TEST_CASE("GELU and SiLU let NaN through, and -infinity as NaN", "[gpu]", float, bf16,
                   fp16) {
  check_activation_limits<TestType>(ops::Gelu{}, {NAN, INFINITY, NAN, 0});
  check_activation_limits<TestType>(ops::Silu{}, {NAN, INFINITY, NAN, 0});
}

TEMPLATE_TEST_CASE("Tanh lets NaN through and ends at -1 and 1", "[gpu]", float, bf16, fp16) {
  check_activation_limits<TestType>(ops::Tanh{}, {NAN, 1, -1, 0});
}

}  // namespace hlite::test
