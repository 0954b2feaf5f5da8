#include "hugectr_lite/core/error.h"
#include "tests/ops/fully_connected_case.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

TEMPLATE_TEST_CASE("fully connected layers agree with the definition", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  const auto devices = op_devices<T>(&kPlainProducts);
  for (const LayerShape& s : kLayerShapes) {
    const LayerCase<T> layer(s);
    for (const OpDevice& on : devices) {
      if (s.large && on.on_gpu()) continue;
      check_forward<T, T>(on, layer);
      if (!std::is_same_v<T, float>) check_forward<T, float>(on, layer);
      check_backward<T>(on, layer);
    }
  }
}

TEMPLATE_TEST_CASE("fully connected ops accept unaligned views", "[gpu]", float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>(&kPlainProducts))
    for (const LayerShape& s : {LayerShape{67, 24, 40}, LayerShape{35, 16, 1}}) {
      const LayerCase<T> layer(s);
      check_forward<T, T>(on, layer, {.shift = 1});
      check_backward<T>(on, layer, {.shift = 1});
      check_bias_relu<T>(on, s.batch, s.out, 1);
    }
}

TEMPLATE_TEST_CASE("bias_relu_backward masks in place and sums the columns", "[gpu]", float, bf16,
                   fp16) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},    {0, 3},    {1100, 1}, {600, 3}, {300, 8},
                                                {301, 40}, {70, 300}, {5, 0},    {64, 129}};
  for (const OpDevice& on : op_devices<TestType>(&kPlainProducts)) {
    for (const auto& [batch, out] : shapes) check_bias_relu<TestType>(on, batch, out);
    if (!on.on_gpu())
      for (const LayerShape& s : kLayerShapes) check_bias_relu<TestType>(on, s.batch, s.out);
  }
}

// Central differences of the double-precision definition give the gradients of sum(weight * y) of a
// small layer; the ops must agree with them.
TEST_CASE("fully connected gradients agree with finite differences", "[gpu]") {
  const LayerShape s{9, 5, 7};
  const auto x = random_values(s.batch * s.in, 1), w = random_values(s.in * s.out, 2);
  const auto bias = random_values(s.out, 3), weight = random_values(s.batch * s.out, 4);
  std::vector<double> params[] = {
      {x.begin(), x.end()}, {w.begin(), w.end()}, {bias.begin(), bias.end()}};
  const auto objective = [&] {
    const auto z = products(s, params[0], params[1]);
    double sum = 0;
    for (size_t i = 0; i < z.size(); ++i)
      sum += static_cast<double>(weight[i]) * std::max(z[i] + params[2][i % params[2].size()], 0.0);
    return sum;
  };
  std::vector<double> slopes[3];
  for (int p = 0; p < 3; ++p)
    for (double& value : params[p]) {
      constexpr double kStep = 1e-6;
      const double before = std::exchange(value, value + kStep), above = objective();
      value = before - kStep;
      slopes[p].push_back((above - objective()) / (2 * kStep));
      value = before;
    }
  for (const OpDevice& on : op_devices<float>(&kPlainProducts)) {
    INFO(on.name());
    const DeviceTensor<float> xs(on, x), ws(on, w), biases(on, bias), dz(on, weight);
    const DeviceTensor<float> y(on, nans(dz.size())), dx(on, nans(xs.size()));
    const DeviceTensor<float> dw(on, nans(ws.size())), db(on, nans(s.out));
    const auto x_view = xs.view(s.batch, s.in), w_view = ws.view(s.in, s.out);
    const auto y_view = y.view(s.batch, s.out), dz_view = dz.view(s.batch, s.out);
    ops::fully_connected_forward(on.exec(), x_view, w_view, biases, true, y_view);
    ops::bias_relu_backward(on.exec(), y_view, dz_view, db);
    ops::fully_connected_backward_weights(on.exec(), x_view, dz_view, dw.view(s.in, s.out));
    ops::fully_connected_backward_data(on.exec(), dz_view, w_view, dx.view(s.batch, s.in));
    check_close(dx.host(), slopes[0], {2e-6, 1e-5}, "dx");
    check_close(dw.host(), slopes[1], {2e-6, 1e-5}, "dw");
    check_close(db.host(), slopes[2], {2e-6, 1e-5}, "db");
  }
}

TEMPLATE_TEST_CASE("fully_connected_forward on the CPU lets a NaN through its ReLU", "", float,
                   bf16) {
  using T = TestType;
  const OpDevice on(1);
  const DeviceTensor<T> x(on, {1, NAN}), w(on, {-1}), bias(on, {0}), y(on, nans(2));
  ops::fully_connected_forward<T>(on.exec(), x.view(2, 1), w.view(1, 1), bias, true, y.view(2, 1));
  CHECK(same_values(y.host(), {0, NAN}));
}

TEST_CASE("the bias gradient has the same bits on any threads") {
  const auto run = []<typename T>(const OpDevice& on) {
    constexpr int64_t kBatch = 517, kOut = 67;
    const DeviceTensor<T> y(on, random_values<T>(kBatch * kOut, 1));
    const DeviceTensor<T> dz(on, random_values<T>(kBatch * kOut, 2));
    const DeviceTensor<float> db(on, nans(kOut));
    ops::bias_relu_backward<T>(on.exec(), y.view(kBatch, kOut), dz.view(kBatch, kOut), db);
    return db.host();
  };
  check_same_bits(run, &kPlainProducts);
}

TEST_CASE("fully connected ops refuse what does not fit") {
  const OpDevice cpu(1), gpu = emulated_device(&kPlainProducts),
                         without_context = emulated_device();
  const Exec& exec = cpu.exec();
  std::vector<float> m(200);
  std::vector<uint8_t> bits(64);
  const Matrix<float> x(m.data(), 4, 3), w(m.data(), 3, 5), y(m.data(), 4, 5);
  const Vector<float> five(m.data(), 5), three(m.data(), 3);
  CHECK_THROWS_AS(ops::fully_connected_forward(exec, x, y, five, true, y), Error);
  CHECK_THROWS_AS(ops::fully_connected_forward(exec, x, w, three, true, y), Error);
  CHECK_THROWS_AS(ops::fully_connected_forward(exec, x, w, five, true, x), Error);
  CHECK_THROWS_AS(ops::fully_connected_backward_data(exec, x, w, x), Error);
  const ops::LayerBelow<float> wrong_bias{x, five}, wrong_y{y, three};
  CHECK_THROWS_AS(ops::fully_connected_backward_data(exec, y, w, x, wrong_bias), Error);
  CHECK_THROWS_AS(ops::fully_connected_backward_data(exec, y, w, x, wrong_y), Error);
  CHECK_THROWS_AS(ops::fully_connected_backward_weights(exec, x, y, x), Error);
  CHECK_THROWS_AS(ops::bias_relu_backward(exec, x, y, five), Error);
  CHECK_THROWS_AS(ops::bias_relu_backward(exec, y, y, three), Error);
  // The CPU has neither masks nor fp16.
  const Matrix<uint8_t> mask(bits.data(), 4, ops::relu_mask_bytes(5));
  CHECK_THROWS_AS(ops::fully_connected_forward(exec, x, w, {}, true, y, mask), Error);
  CHECK_THROWS_AS((ops::fully_connected_backward_weights<fp16>(exec, {}, {}, {})), Error);

  const Matrix<uint8_t> short_mask(bits.data(), 4, 1);
  check_contains(message_of<Error>([&] {
                   ops::fully_connected_forward(gpu.exec(), x, w, {}, true, y, short_mask);
                 }),
                 {"mask [4,1]", "expected [4,16]"});
  const ops::LayerBelow<float> below{x, {}, short_mask};
  CHECK_THROWS_AS(ops::fully_connected_backward_data(gpu.exec(), y, w, x, below), Error);
  CHECK_THROWS_AS(ops::bias_relu_backward(gpu.exec(), y, y, {}, short_mask), Error);
  check_contains(message_of<Error>([&] {
                   ops::fully_connected_forward(without_context.exec(), x, w, {}, true, y);
                 }),
                 {"fully_connected_forward", "MatmulContext"});
}

}  // namespace
}  // namespace hlite::test
