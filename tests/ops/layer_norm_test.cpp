#include "hugectr_lite/ops/layer_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/batch_norm.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

constexpr float kLayerEpsilon = 1e-3f;

struct LayerNormShape {
  int64_t rows, n;
  int64_t groups = 1;
  [[nodiscard]] int64_t parameters() const { return groups * n; }
};
constexpr LayerNormShape kLayerNormShapes[] = {{0, 3},   {1, 1},   {5, 2},   {7, 31},   {33, 8},
                                               {67, 37}, {3, 301}, {257, 5}, {33, 7, 3}};

// y, dx, dgamma and dbeta one after another.
template <typename T>
std::vector<std::vector<float>> layer_norm_on(const OpDevice& on, const LayerNormShape& s,
                                              int64_t offset = 0) {
  const int64_t size = s.rows * s.n, parts = ops::terms_workspace(s.parameters());
  const DeviceTensor<T> x(on, random_values<T>(size, 1), offset);
  const DeviceTensor<T> dy(on, random_values<T>(size, 2), offset);
  const DeviceTensor<float> gamma(on, random_values(s.parameters(), 3), offset),
      beta(on, random_values(s.parameters(), 4), offset), statistics(on, nans(2 * s.rows));
  const DeviceTensor<T> y(on, nans(size), offset), dx(on, nans(size), offset);
  const DeviceTensor<float> dgamma(on, nans(s.parameters())), dbeta(on, nans(s.parameters()));
  const DeviceTensor<double> workspace(on, std::vector<double>(static_cast<size_t>(parts), NAN)),
      sums(on, std::vector<double>(static_cast<size_t>(2 * s.parameters()), NAN));
  const auto of = statistics.view(s.rows, 2);
  ops::layer_norm_forward<T>(on.exec(), x.view(s.rows, s.n), gamma, beta, kLayerEpsilon, of,
                             y.view(s.rows, s.n));
  ops::layer_norm_backward<T>(on.exec(), x.view(s.rows, s.n), dy.view(s.rows, s.n), of, gamma,
                              dx.view(s.rows, s.n));
  const int64_t together = s.rows / s.groups, m = s.parameters();
  ops::layer_norm_gradient_sums<T>(on.exec(), x.view(together, m), dy.view(together, m), of,
                                   workspace, sums.view(2, m));
  ops::batch_norm_parameter_gradients(on.exec(), sums.view(2, m), dgamma, dbeta);
  return {y.host(), dx.host(), dgamma.host(), dbeta.host()};
}

}  // namespace

TEMPLATE_TEST_CASE("layer normalisation agrees with its definition, forward and backward", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const LayerNormShape& s : kLayerNormShapes)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.rows << "," << s.n << "], offset " << offset);
        const auto x = random_values<T>(s.rows * s.n, 1), dy = random_values<T>(s.rows * s.n, 2);
        const auto gamma = random_values(s.parameters(), 3);
        const auto beta = random_values(s.parameters(), 4);
        const auto n = static_cast<size_t>(s.n);
        const auto count = static_cast<double>(s.n);
        std::vector<double> y(x.size()), dx(x.size()), dgamma(gamma.size()), dbeta(gamma.size());
        for (size_t r = 0; r < static_cast<size_t>(s.rows); ++r) {
          double mean = 0, variance = 0, g = 0, gx = 0;
          const size_t group = r % static_cast<size_t>(s.groups) * n;
          for (size_t j = 0; j < n; ++j) mean += x[r * n + j] / count;
          for (size_t j = 0; j < n; ++j) variance += std::pow(x[r * n + j] - mean, 2) / count;
          const double rate = 1 / std::sqrt(variance + static_cast<double>(kLayerEpsilon));
          const auto x_hat = [&](size_t j) { return (x[r * n + j] - mean) * rate; };
          for (size_t j = 0; j < n; ++j) {
            y[r * n + j] = gamma[group + j] * x_hat(j) + beta[group + j];
            dbeta[group + j] += dy[r * n + j];
            dgamma[group + j] += dy[r * n + j] * x_hat(j);
            g += static_cast<double>(gamma[group + j]) * dy[r * n + j] / count;
            gx += gamma[group + j] * dy[r * n + j] * x_hat(j) / count;
          }
          for (size_t j = 0; j < n; ++j)
            dx[r * n + j] =
                rate * (static_cast<double>(gamma[group + j]) * dy[r * n + j] - g - x_hat(j) * gx);
        }
        const auto got = layer_norm_on<T>(on, s, offset);
        check_close(got[0], y, {2e-5, 2e-6 + kRounding<T>}, "y");
        check_close(got[1], dx, {1e-4, 2e-6 + kRounding<T>}, "dx");
        check_close(got[2], dgamma, {4e-5, 2e-6}, "dgamma");
        check_close(got[3], dbeta, {1e-6, 1e-6}, "dbeta");
      }
}

TEST_CASE("layer normalisation gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    auto r = layer_norm_on<T>(on, {301, 19});
    for (const size_t i : {1u, 2u, 3u}) r[0].insert(r[0].end(), r[i].begin(), r[i].end());
    return r[0];
  });
}

TEST_CASE("layer normalisation refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  std::vector<double> d(1024);
  const Matrix<float> x(m.data(), 4, 3), other(m.data(), 4, 2), s(m.data(), 4, 2);
  const Vector<float> three(m.data(), 3), two(m.data(), 2);
  const Matrix<double> sums(d.data(), 2, 3);
  CHECK_THROWS_AS(ops::layer_norm_forward(on.exec(), x, three, two, 1, s, x), Error);
  CHECK_THROWS_AS(ops::layer_norm_forward(on.exec(), x, three, three, 1, x, x), Error);
  CHECK_THROWS_AS(ops::layer_norm_forward(on.exec(), x, three, three, 1, s, other), Error);
  CHECK_THROWS_AS(ops::layer_norm_backward(on.exec(), x, other, s, three, x), Error);
  CHECK_THROWS_AS(ops::layer_norm_backward(on.exec(), x, x, s, two, x), Error);
  CHECK_THROWS_AS(ops::layer_norm_gradient_sums(on.exec(), x, x, s, {d.data(), 5}, sums), Error);
}

}  // namespace hlite::test
