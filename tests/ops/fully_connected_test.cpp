#include "hugectr_lite/ops/fully_connected.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {
using test::random_values;
using test::span_of;
using test::widened;

struct LayerShape {
  int64_t batch, in, out;
};
const LayerShape kLayerShapes[] = {{1, 1, 1},     {0, 5, 3},    {1, 7, 33},   {7, 33, 1},
                                   {33, 1, 7},    {31, 13, 17}, {64, 16, 64}, {67, 29, 31},
                                   {259, 13, 40}, {513, 37, 5}, {1031, 3, 2}, {3, 1031, 5},
                                   {5, 3, 1031},  {5, 0, 3}};

// z = x w + bias, then ReLU, in double.
std::vector<double> forward(const LayerShape& s, const std::vector<double>& x,
                            const std::vector<double>& w, const std::vector<double>& bias,
                            bool relu) {
  std::vector<double> y(static_cast<size_t>(s.batch * s.out));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t o = 0; o < s.out; ++o) {
      double z = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < s.in; ++i)
        z += x[static_cast<size_t>(b * s.in + i)] * w[static_cast<size_t>(i * s.out + o)];
      y[static_cast<size_t>(b * s.out + o)] = relu && z < 0 ? 0 : z;
    }
  }
  return y;
}

struct Gradients {
  std::vector<double> dx, dw, db;
};

// dx = dz w^T masked by mask > 0 (empty: not masked), db = its column sums, dw = x^T dz.
Gradients backward(const LayerShape& s, const std::vector<float>& x, const std::vector<float>& w,
                   const std::vector<float>& dz, const std::vector<float>& mask) {
  Gradients g{std::vector<double>(x.size()), std::vector<double>(w.size()),
              std::vector<double>(static_cast<size_t>(s.in))};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.in; ++i) {
      const auto at = static_cast<size_t>(b * s.in + i);
      for (int64_t o = 0; o < s.out; ++o) {
        const auto weight = static_cast<size_t>(i * s.out + o);
        const double d = dz[static_cast<size_t>(b * s.out + o)];
        g.dx[at] += d * w[weight];
        g.dw[weight] += d * x[at];
      }
      if (!mask.empty() && !(mask[at] > 0)) g.dx[at] = 0;
      g.db[static_cast<size_t>(i)] += g.dx[at];
    }
  }
  return g;
}

// Tolerance of a sum of n products of numbers in [-1, 1): 5e-6 of its deviation, sqrt(n) / 3.
test::Tolerance sum_tolerance(int64_t n) {
  return {5e-6 * (std::sqrt(static_cast<double>(n) / 9) + 1), 1e-6};
}

TEST_CASE("fully_connected_forward agrees with the definition") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const LayerShape& s : kLayerShapes) {
      const auto x = random_values(s.batch * s.in, 1), w = random_values(s.in * s.out, 2);
      const auto bias = random_values(s.out, 3);
      for (const bool with_bias : {false, true}) {
        for (const bool relu : {false, true}) {
          CAPTURE(count, s.batch, s.in, s.out, with_bias, relu);
          std::vector<float> y(static_cast<size_t>(s.batch * s.out), NAN);
          fully_connected_forward(
              threads.exec(), {x.data(), s.batch, s.in}, {w.data(), s.in, s.out},
              {with_bias ? bias.data() : nullptr, s.out}, relu, {y.data(), s.batch, s.out});
          const auto want = forward(s, widened(x), widened(w),
                                    with_bias ? widened(bias) : std::vector<double>(), relu);
          test::check_close(span_of(y), span_of(want), sum_tolerance(s.in), "y");
        }
      }
    }
  }
}

TEST_CASE("fully_connected_forward lets a NaN through its ReLU") {
  test::Threads threads(1);
  const std::vector<float> x = {1, NAN}, w = {-1}, bias = {0};
  std::vector<float> y(2);
  fully_connected_forward(threads.exec(), {x.data(), 2, 1}, {w.data(), 1, 1}, {bias.data(), 1},
                          true, {y.data(), 2, 1});
  CHECK(y[0] == 0);
  CHECK(std::isnan(y[1]));
}

TEST_CASE("fully connected gradients agree with the definition") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const LayerShape& s : kLayerShapes) {
      CAPTURE(count, s.batch, s.in, s.out);
      auto x = random_values(s.batch * s.in, 1);
      for (size_t i = 0; i < x.size(); i += 5) x[i] = 0;  // 0 counts as below the ReLU's edge
      const auto w = random_values(s.in * s.out, 2), dz = random_values(s.batch * s.out, 3);
      const Matrix<const float> x_view(x.data(), s.batch, s.in), w_view(w.data(), s.in, s.out);
      const Matrix<const float> dz_view(dz.data(), s.batch, s.out);
      const auto plain = backward(s, x, w, dz, {}), masked = backward(s, x, w, dz, x);

      std::vector<float> dw(w.size(), NAN);
      fully_connected_backward_weights(threads.exec(), x_view, dz_view, {dw.data(), s.in, s.out});
      test::check_close(span_of(dw), span_of(plain.dw), sum_tolerance(s.batch), "dw");

      std::vector<float> dx(x.size(), NAN), db(static_cast<size_t>(s.in), NAN);
      const Matrix<float> dx_view(dx.data(), s.batch, s.in);
      const Vector<float> db_view(db.data(), s.in);
      fully_connected_backward_data(threads.exec(), dz_view, w_view, dx_view, nullptr);
      test::check_close(span_of(dx), span_of(plain.dx), sum_tolerance(s.out), "dx");

      const auto db_tolerance = sum_tolerance(s.batch * s.out);
      const ReluBelow relu{x_view, db_view};
      std::fill(dx.begin(), dx.end(), NAN);
      fully_connected_backward_data(threads.exec(), dz_view, w_view, dx_view, &relu);
      test::check_close(span_of(dx), span_of(masked.dx), sum_tolerance(s.out), "masked dx");
      test::check_close(span_of(db), span_of(masked.db), db_tolerance, "masked db");

      const ReluBelow no_mask{{nullptr, s.batch, s.in}, db_view};
      fully_connected_backward_data(threads.exec(), dz_view, w_view, dx_view, &no_mask);
      test::check_close(span_of(dx), span_of(plain.dx), sum_tolerance(s.out), "dx with db");
      test::check_close(span_of(db), span_of(plain.db), db_tolerance, "db");

      const ReluBelow no_bias{x_view, {nullptr, s.in}};
      fully_connected_backward_data(threads.exec(), dz_view, w_view, dx_view, &no_bias);
      test::check_close(span_of(dx), span_of(masked.dx), sum_tolerance(s.out), "dx without db");
    }
  }
}

TEST_CASE("bias_relu_backward masks in place and sums the columns") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const LayerShape& s : kLayerShapes) {
      for (const bool masked : {false, true}) {
        CAPTURE(count, s.batch, s.out, masked);
        auto y = random_values(s.batch * s.out, 1);
        for (size_t i = 0; i < y.size(); i += 3) y[i] = 0;
        const auto dy = random_values(s.batch * s.out, 2);
        auto dz = dy;
        std::vector<float> db(static_cast<size_t>(s.out), NAN), want = dy;
        std::vector<double> want_db(db.size());
        for (size_t i = 0; i < dy.size(); ++i) {
          if (masked && !(y[i] > 0)) want[i] = 0;
          want_db[i % db.size()] += static_cast<double>(want[i]);
        }
        const Matrix<const float> y_view(masked ? y.data() : nullptr, s.batch, s.out);
        bias_relu_backward(threads.exec(), y_view, {dz.data(), s.batch, s.out}, {db.data(), s.out});
        CHECK(dz == want);
        test::check_close(span_of(db), span_of(want_db), sum_tolerance(s.batch), "db");

        dz = dy;
        bias_relu_backward(threads.exec(), y_view, {dz.data(), s.batch, s.out}, {nullptr, s.out});
        CHECK(dz == want);
      }
    }
  }
}

// sum(weight * y) of a small layer has the gradients that the ops give, by central differences of
// the double-precision definition.
TEST_CASE("fully connected gradients agree with finite differences") {
  test::Threads threads(2);
  const LayerShape s{9, 5, 7};
  const auto x = random_values(s.batch * s.in, 1), w = random_values(s.in * s.out, 2);
  const auto bias = random_values(s.out, 3), weight = random_values(s.batch * s.out, 4);
  const Matrix<const float> x_view(x.data(), s.batch, s.in), w_view(w.data(), s.in, s.out);
  std::vector<float> y(weight.size()), dz = weight;
  std::vector<float> dx(x.size()), dw(w.size()), db(bias.size());
  fully_connected_forward(threads.exec(), x_view, w_view, {bias.data(), s.out}, true,
                          {y.data(), s.batch, s.out});
  bias_relu_backward(threads.exec(), {y.data(), s.batch, s.out}, {dz.data(), s.batch, s.out},
                     {db.data(), s.out});
  const Matrix<const float> dz_view(dz.data(), s.batch, s.out);
  fully_connected_backward_weights(threads.exec(), x_view, dz_view, {dw.data(), s.in, s.out});
  fully_connected_backward_data(threads.exec(), dz_view, w_view, {dx.data(), s.batch, s.in});

  std::vector<double> params[] = {widened(x), widened(w), widened(bias)};
  const auto objective = [&] {
    const auto out = forward(s, params[0], params[1], params[2], true);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(weight[i]) * out[i];
    return sum;
  };
  const std::vector<float>* gradients[] = {&dx, &dw, &db};
  for (int p = 0; p < 3; ++p) {
    for (size_t i = 0; i < params[p].size(); ++i) {
      constexpr double kStep = 1e-6;
      const double value = params[p][i];
      params[p][i] = value + kStep;
      const double above = objective();
      params[p][i] = value - kStep;
      const double below = objective();
      params[p][i] = value;
      CAPTURE(p, i);
      CHECK(static_cast<double>((*gradients[p])[i]) ==
            Approx((above - below) / (2 * kStep)).margin(2e-6).epsilon(1e-5));
    }
  }
}

TEST_CASE("the bias gradient's bits do not depend on the thread count") {
  const int64_t batch = 517, n = 67;
  const auto y = random_values(batch * n, 1), dy = random_values(batch * n, 2);
  std::vector<float> first;
  for (const int count : {1, 2, 3, 5}) {
    test::Threads threads(count);
    auto dz = dy;
    std::vector<float> db(static_cast<size_t>(n));
    bias_relu_backward(threads.exec(), {y.data(), batch, n}, {dz.data(), batch, n}, {db.data(), n});
    if (first.empty()) first = db;
    CHECK(db == first);
  }
}

TEST_CASE("fully connected ops refuse shapes that do not fit") {
  test::Threads threads(1);
  const Exec& exec = threads.exec();
  std::vector<float> m(200);
  const Matrix<float> x(m.data(), 4, 3), w(m.data(), 3, 5), y(m.data(), 4, 5);
  const Vector<float> five(m.data(), 5), three(m.data(), 3);
  CHECK_THROWS_AS(fully_connected_forward(exec, x, y, five, true, y), Error);
  CHECK_THROWS_AS(fully_connected_forward(exec, x, w, three, true, y), Error);
  CHECK_THROWS_AS(fully_connected_forward(exec, x, w, five, true, x), Error);
  CHECK_THROWS_AS(fully_connected_backward_data(exec, x, w, x), Error);
  const ReluBelow wrong_bias{x, five}, wrong_y{y, three};
  CHECK_THROWS_AS(fully_connected_backward_data(exec, y, w, x, &wrong_bias), Error);
  CHECK_THROWS_AS(fully_connected_backward_data(exec, y, w, x, &wrong_y), Error);
  CHECK_THROWS_AS(fully_connected_backward_weights(exec, x, y, x), Error);
  CHECK_THROWS_AS(bias_relu_backward(exec, x, y, five), Error);
  CHECK_THROWS_AS(bias_relu_backward(exec, y, y, three), Error);
}

}  // namespace
}  // namespace hlite::ops
