#include "hugectr_lite/ops/dice.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

constexpr double kDiceEpsilon = 1e-2;
constexpr float kDiceAlpha = 0.3f;

struct DiceShape {
  int64_t rows, n;
};
constexpr DiceShape kDiceShapes[] = {{1, 1}, {5, 2}, {7, 31}, {33, 8}, {67, 37}, {257, 3}};

// y and dx one after another; of an alpha for each column, dalpha too.
template <typename T>
std::vector<std::vector<float>> dice_on(const OpDevice& on, const DiceShape& s, int64_t offset = 0,
                                        bool each = false) {
  const int64_t size = s.rows * s.n;
  const auto nan_doubles = [&](int64_t n) {
    return DeviceTensor<double>(on, std::vector<double>(static_cast<size_t>(n), NAN));
  };
  const DeviceTensor<T> x(on, random_values<T>(size, 1), offset);
  const DeviceTensor<T> dy(on, random_values<T>(size, 2), offset);
  const DeviceTensor<T> y(on, nans(size), offset), dx(on, nans(size), offset);
  const DeviceTensor<float> statistics(on, nans(ops::ColumnStatistics::kRows * s.n));
  const auto workspace = nan_doubles(ops::terms_workspace(s.n)), sums = nan_doubles(2 * s.n);
  const ops::ColumnStatistics of(statistics.data(), s.n);
  const auto x_view = x.view(s.rows, s.n), dy_view = dy.view(s.rows, s.n);
  ops::batch_norm_sums<T>(on.exec(), x_view, workspace, sums.view(2, s.n));
  ops::batch_norm_statistics(on.exec(), sums.view(1, 2, s.n), s.rows, kDiceEpsilon, of);
  const DeviceTensor<float> alphas(on, std::vector<float>(static_cast<size_t>(s.n), kDiceAlpha));
  const DeviceTensor<float> dalpha(on, nans(s.n));
  const ops::DiceAlpha alpha =
      each ? ops::DiceAlpha(Vector<const float>(alphas)) : ops::DiceAlpha(kDiceAlpha);
  ops::dice_forward<T>(on.exec(), x_view, of, alpha, y.view(s.rows, s.n));
  if (each)
    ops::dice_alpha_gradient<T>(on.exec(), x_view, dy_view, of, workspace, sums.view(2, s.n),
                                dalpha);
  ops::dice_gradient_sums<T>(on.exec(), x_view, dy_view, of, alpha, workspace, sums.view(2, s.n));
  ops::batch_norm_gradient_means(on.exec(), sums.view(1, 2, s.n), s.rows, of);
  ops::dice_backward<T>(on.exec(), x_view, dy_view, of, alpha, dx.view(s.rows, s.n));
  return {y.host(), dx.host(), dalpha.host()};
}

// y of one column.
std::vector<double> dice_of(const std::vector<double>& x,
                            double alpha = static_cast<double>(kDiceAlpha)) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / count;
  for (const double v : x) variance += (v - mean) * (v - mean) / count;
  std::vector<double> y;
  for (const double v : x) {
    const double p = 1 / (1 + std::exp(-(v - mean) / std::sqrt(variance + kDiceEpsilon)));
    y.push_back(p * v + (1 - p) * alpha * v);
  }
  return y;
}

}  // namespace

// The gradient is compared with central differences in double: their error is 1e-8.
TEMPLATE_TEST_CASE("Dice agrees with its definition, and its gradient with differences", "[gpu]",
                   float, bf16, fp16) {
  using T = TestType;
  for (const DiceShape& s : kDiceShapes) {
    const auto values = random_values<T>(s.rows * s.n, 1), dy = random_values<T>(s.rows * s.n, 2);
    const auto n = static_cast<size_t>(s.n), rows = static_cast<size_t>(s.rows);
    std::vector<double> y(values.size()), dx(values.size()), dalpha(n);
    for (size_t j = 0; j < n; ++j) {
      std::vector<double> column;
      for (size_t i = 0; i < rows; ++i) column.push_back(values[i * n + j]);
      const auto out = dice_of(column);
      const auto steeper = dice_of(column, static_cast<double>(kDiceAlpha) + 1);
      for (size_t i = 0; i < rows; ++i) y[i * n + j] = out[i];
      for (size_t i = 0; i < rows; ++i) dalpha[j] += dy[i * n + j] * (steeper[i] - out[i]);
      for (size_t i = 0; i < rows; ++i) {
        const auto above = [&](double step) {
          auto moved = column;
          moved[i] += step;
          const auto result = dice_of(moved);
          double sum = 0;
          for (size_t k = 0; k < rows; ++k) sum += result[k] * dy[k * n + j];
          return sum;
        };
        dx[i * n + j] = (above(1e-5) - above(-1e-5)) / 2e-5;
      }
    }
    for (const OpDevice& on : op_devices<T>())
      for (const int64_t offset : {0, 1}) {
        INFO(on.name() << ", [" << s.rows << "," << s.n << "], offset " << offset);
        const auto got = dice_on<T>(on, s, offset);
        check_close(got[0], y, {1e-6, 2e-6 + kRounding<T>}, "y");
        check_close(got[1], dx, {1e-5, 1e-5 + kRounding<T>}, "dx");
        const auto each = dice_on<T>(on, s, offset, true);
        CHECK(same_values(each[0], got[0]));
        CHECK(same_values(each[1], got[1]));
        check_close(each[2], dalpha, {1e-5, 1e-5}, "dalpha");
      }
  }
}

TEST_CASE("Dice gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) { return dice_on<T>(on, {389, 17})[1]; });
  check_same_bits([]<typename T>(const OpDevice& on) {
    return dice_on<T>(on, {389, 17}, 0, true)[2];
  });
}

TEST_CASE("Dice refuses what does not fit") {
  const OpDevice on(1);
  std::vector<float> m(64);
  std::vector<double> d(1024);
  const Matrix<float> x(m.data(), 4, 3), other(m.data(), 4, 2);
  const ops::ColumnStatistics s(m.data(), 3), narrow(m.data(), 2);
  CHECK_THROWS_AS(ops::dice_forward(on.exec(), x, narrow, 1, x), Error);
  CHECK_THROWS_AS(ops::dice_forward(on.exec(), x, s, 1, other), Error);
  CHECK_THROWS_AS(ops::dice_backward(on.exec(), x, other, s, 1, x), Error);
  CHECK_THROWS_AS(ops::dice_alpha_gradient(on.exec(), x, x, s, {d.data(), 1024}, {d.data(), 2, 3},
                                           {m.data(), 2}),
                  Error);
  CHECK_THROWS_AS(ops::dice_gradient_sums(on.exec(), x, x, s, 1, {d.data(), 5}, {d.data(), 2, 3}),
                  Error);
}

}  // namespace hlite::test
