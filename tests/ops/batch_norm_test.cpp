#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

constexpr double kEpsilon = 1e-3;

// The rows of a batch, cut in two as two ranks would have them: the first one has `first`.
struct NormShape {
  int64_t rows, n, first;
};
constexpr NormShape kNormShapes[] = {{1, 1, 1},   {2, 3, 0},    {7, 1, 3},    {31, 33, 30},
                                     {67, 8, 67}, {129, 65, 1}, {1031, 5, 97}};

struct NormInputs {
  std::vector<float> x, dy, gamma, beta;
};
template <typename T>
NormInputs norm_inputs(const NormShape& s) {
  NormInputs in{random_values<T>(s.rows * s.n, 1), random_values<T>(s.rows * s.n, 2),
                random_values(s.n, 3), random_values(s.n, 4)};
  // Columns far from 0, and one that does not vary.
  for (size_t i = 0; i < in.x.size(); ++i)
    in.x[i] = i % static_cast<size_t>(s.n) == 2 ? 0.75f : 8.0f * in.x[i] + 3.0f;
  in.x = as<T>(in.x);
  return in;
}

struct NormResults {
  std::vector<float> y, dx, dgamma, dbeta, statistics;
};

// Both halves one after the other on one device, which exchange their sums.
template <typename T>
NormResults norm_on(const OpDevice& on, const NormShape& s, const NormInputs& in,
                    int64_t offset = 0) {
  const auto doubles = [&](int64_t n) {
    return DeviceTensor<double>(on, std::vector<double>(static_cast<size_t>(n), NAN));
  };
  const DeviceTensor<T> x(on, in.x, offset), dy(on, in.dy, offset);
  const DeviceTensor<T> y(on, nans(x.size()), offset), dx(on, nans(x.size()), offset);
  const DeviceTensor<float> gamma(on, in.gamma, offset), beta(on, in.beta, offset);
  const DeviceTensor<float> statistics(on, nans(ops::ColumnStatistics::kRows * s.n));
  const DeviceTensor<float> dgamma(on, nans(2 * s.n)), dbeta(on, nans(2 * s.n));
  const DeviceTensor<double> workspace = doubles(ops::terms_workspace(s.n));
  const DeviceTensor<double> sums = doubles(4 * s.n), gradients = doubles(4 * s.n);
  const ops::ColumnStatistics of(statistics.data(), s.n);
  const auto all = [&](const DeviceTensor<double>& t) { return t.view(2, 2, s.n); };
  const auto own = [&](const DeviceTensor<double>& t, int64_t half) {
    return Matrix<double>(t.data() + half * 2 * s.n, 2, s.n);
  };
  const auto part = [&](const DeviceTensor<T>& t, int64_t half) {
    return half == 0 ? t.view(s.rows, s.n).rows(0, s.first)
                     : t.view(s.rows, s.n).rows(s.first, s.rows);
  };
  for (const int64_t h : {0, 1})
    ops::batch_norm_sums<T>(on.exec(), part(x, h), workspace, own(sums, h));
  ops::batch_norm_statistics(on.exec(), all(sums), s.rows, kEpsilon, of);
  for (const int64_t h : {0, 1}) {
    ops::batch_norm_forward<T>(on.exec(), part(x, h), of, gamma, beta, part(y, h));
    ops::batch_norm_gradient_sums<T>(on.exec(), part(x, h), part(dy, h), of, workspace,
                                     own(gradients, h));
    ops::batch_norm_parameter_gradients(on.exec(), own(gradients, h),
                                        {dgamma.data() + h * s.n, s.n},
                                        {dbeta.data() + h * s.n, s.n});
  }
  ops::batch_norm_gradient_means(on.exec(), all(gradients), s.rows, of);
  for (const int64_t h : {0, 1})
    ops::batch_norm_backward<T>(on.exec(), part(x, h), part(dy, h), of, gamma, part(dx, h));
  return {y.host(), dx.host(), dgamma.host(), dbeta.host(), statistics.host()};
}

struct NormOracle {
  std::vector<double> y, dx, dgamma, dbeta, mean, variance;
};
NormOracle norm_oracle(const NormShape& s, const NormInputs& in) {
  const auto n = static_cast<size_t>(s.n), rows = static_cast<size_t>(s.rows);
  const double count = static_cast<double>(s.rows);
  NormOracle o{std::vector<double>(in.x.size()), std::vector<double>(in.x.size()),
               std::vector<double>(n),           std::vector<double>(n),
               std::vector<double>(n),           std::vector<double>(n)};
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < rows; ++i) o.mean[j] += in.x[i * n + j] / count;
    for (size_t i = 0; i < rows; ++i)
      o.variance[j] += std::pow(in.x[i * n + j] - o.mean[j], 2) / count;
    const double deviation = std::sqrt(o.variance[j] + kEpsilon);
    const auto x_hat = [&](size_t i) { return (in.x[i * n + j] - o.mean[j]) / deviation; };
    for (size_t i = 0; i < rows; ++i) {
      o.y[i * n + j] = in.gamma[j] * x_hat(i) + in.beta[j];
      o.dbeta[j] += in.dy[i * n + j];
      o.dgamma[j] += in.dy[i * n + j] * x_hat(i);
    }
    for (size_t i = 0; i < rows; ++i)
      o.dx[i * n + j] = in.gamma[j] / deviation *
                        (in.dy[i * n + j] - o.dbeta[j] / count - x_hat(i) * o.dgamma[j] / count);
  }
  return o;
}

std::vector<double> halves_added(const std::vector<float>& halves) {
  const size_t n = halves.size() / 2;
  std::vector<double> sum;
  for (size_t j = 0; j < n; ++j)
    sum.push_back(static_cast<double>(halves[j]) + static_cast<double>(halves[n + j]));
  return sum;
}

}  // namespace

TEMPLATE_TEST_CASE("batch normalisation agrees with its definition, forward and backward", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  for (const OpDevice& on : op_devices<T>())
    for (const NormShape& s : kNormShapes)
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.rows << "," << s.n << "], offset " << offset);
        const NormInputs in = norm_inputs<T>(s);
        const NormOracle want = norm_oracle(s, in);
        const NormResults got = norm_on<T>(on, s, in, offset);
        // 1 / deviation is up to 1 / sqrt(epsilon) = 32, times roundings of numbers up to 11.
        check_close(got.y, want.y, {4e-5, 2e-6 + kRounding<T>}, "y");
        check_close(got.dx, want.dx, {2e-4, 2e-6 + kRounding<T>}, "dx");
        check_close(halves_added(got.dbeta), want.dbeta, {1e-6, 1e-6}, "dbeta");
        check_close(halves_added(got.dgamma), want.dgamma, {4e-5, 4e-6}, "dgamma");
        const auto n = static_cast<std::ptrdiff_t>(s.n);
        const auto& f = got.statistics;
        check_close(std::vector(f.begin(), f.begin() + n), want.mean, {1e-6, 1e-6}, "mean");
        check_close(std::vector(f.begin() + n, f.begin() + 2 * n), want.variance, {1e-6, 1e-6},
                    "variance");
      }
}

TEST_CASE("batch normalisation keeps the digits of columns far from 0", "[gpu]") {
  const NormShape s{97, 2, 40};
  NormInputs in = norm_inputs<float>(s);
  for (float& x : in.x) x = 1e4f + 0.25f * x;
  const NormOracle want = norm_oracle(s, in);
  for (const OpDevice& on : op_devices<float>())
    check_close(norm_on<float>(on, s, in).y, want.y, {1e-3, 1e-3}, "y");
}

TEST_CASE("batch normalisation gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    const NormShape s{389, 37, 100};
    NormResults r = norm_on<T>(on, s, norm_inputs<T>(s));
    r.dx.insert(r.dx.end(), r.dgamma.begin(), r.dgamma.end());
    return r.dx;
  });
}

TEST_CASE("running statistics move towards a batch's, are what evaluation goes by, and can wait",
          "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const float inf = std::numeric_limits<float>::infinity();
    const DeviceTensor<float> values(
        on, {2, 4, inf, 1, 9, 0.5f, 1, inf, 0, 0,
             0, 0, 0,   0, 0, 0,    0, 0,   0, 0});  // mean, variance and more of 4 columns
    const DeviceTensor<float> mean(on, {1, 1, 1, 1}), variance(on, {1, 1, 1, 1});
    const DeviceTensor<int32_t> skip(on, {1}), go(on, {0});
    const ops::ColumnStatistics batch(values.data(), 4);
    const ops::RunningStatistics running{mean, variance};
    ops::update_running(on.exec(), batch, {.rows = 5, .factor = 0.25f, .skip = skip.data()},
                        running);
    CHECK(mean.host() == std::vector<float>{1, 1, 1, 1});
    ops::update_running(on.exec(), batch, {.rows = 5, .factor = 0.25f, .skip = go.data()}, running);
    CHECK(mean.host() == std::vector<float>{1.25f, 1.75f, 1, 1});
    CHECK(variance.host() ==
          std::vector<float>{1 + 0.25f * (11.25f - 1), 1 + 0.25f * (0.625f - 1), 1, 1});
    const auto before = variance.host();
    ops::update_running(on.exec(), batch, {.rows = 1, .factor = 1, .skip = nullptr}, running);
    CHECK(mean.host() == std::vector<float>{2, 4, 1, 1});
    CHECK(variance.host() == before);  // of one row there is none
    const DeviceTensor<float> other(on, nans(20));
    ops::running_statistics(on.exec(), running, kEpsilon, ops::ColumnStatistics(other.data(), 4));
    const auto found = other.host();
    for (size_t j = 0; j < 4; ++j) {
      CHECK(found[j] == mean.host()[j]);
      CHECK(found[8 + j] == Approx(1 / std::sqrt(before[j] + kEpsilon)).epsilon(1e-6));
    }
  }
}

TEST_CASE("batch normalisation refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  std::vector<double> d(1024);
  const Matrix<float> x(m.data(), 4, 3), other(m.data(), 4, 2);
  const ops::ColumnStatistics s(m.data(), 3), narrow(m.data(), 2);
  const Vector<double> workspace(d.data(), ops::terms_workspace(3));
  const Vector<float> three(m.data(), 3), two(m.data(), 2);
  const Matrix<double> sums(d.data(), 2, 3), bad_sums(d.data(), 2, 2);
  CHECK_THROWS_AS(ops::batch_norm_sums(on.exec(), x, {d.data(), 3}, sums), Error);
  CHECK_THROWS_AS(ops::batch_norm_sums(on.exec(), x, workspace, bad_sums), Error);
  CHECK_THROWS_AS(ops::batch_norm_gradient_sums(on.exec(), x, other, s, workspace, sums), Error);
  CHECK_THROWS_AS(ops::batch_norm_statistics(on.exec(), {d.data(), 1, 2, 3}, 4, 1, narrow), Error);
  CHECK_THROWS_AS(ops::batch_norm_gradient_means(on.exec(), {d.data(), 1, 2, 3}, 4, narrow), Error);
  CHECK_THROWS_AS(ops::batch_norm_forward(on.exec(), x, narrow, three, three, x), Error);
  CHECK_THROWS_AS(ops::batch_norm_backward(on.exec(), x, x, s, three, other), Error);
  CHECK_THROWS_AS(ops::batch_norm_parameter_gradients(on.exec(), sums, two, three), Error);
  CHECK_THROWS_AS(ops::update_running(on.exec(), s, {}, {two, three}), Error);
  CHECK_THROWS_AS(ops::running_statistics(on.exec(), {three, two}, 1, s), Error);
}

}  // namespace hlite::test
