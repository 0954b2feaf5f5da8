#include "hugectr_lite/ops/gradient_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

double sum_on(const OpDevice& on, const std::vector<float>& x, int64_t offset = 0) {
  const DeviceTensor<float> values(on, x, offset);
  const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums, -1.0));
  const DeviceTensor<double> sum(on, {-1.0});
  ops::square_sum(on.exec(), values, workspace, sum.data());
  return sum.host()[0];
}

TEST_CASE("square_sum is the sum of squares", "[gpu]") {
  for_each_size<float>([](const OpDevice& on, int64_t n, int64_t offset) {
    const auto x = random_values(n, 1);
    long double want = 0;
    for (const float v : x) want += static_cast<long double>(v) * static_cast<long double>(v);
    // At worst: a lane of a piece adds 1024 squares, each to 2^-53.
    CHECK(sum_on(on, x, offset) == Approx(static_cast<double>(want)).epsilon(1e-13));
  });
}

TEST_CASE("square_sum gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    const double sum = sum_on(on, random_values<T>(kManyElements, 3));
    const auto high = static_cast<float>(sum);
    return std::vector<float>{high, static_cast<float>(sum - static_cast<double>(high))};
  });
}

TEST_CASE("clip_gradients shortens what is longer than the norm, and unscales", "[gpu]") {
  for (const OpDevice& on : op_devices<float>()) {
    INFO(on.name());
    const auto factors = [&](const std::vector<double>& sums, double most,
                             ops::ScaledSums scaled = {}) {
      const DeviceTensor<double> squares(on, sums);
      const DeviceTensor<float> inverse(on, {0.125f}), out(on, {-1.0f, -1.0f});
      if (scaled.count > 0) scaled.inverse = inverse.data();
      ops::clip_gradients(on.exec(), squares, most, scaled,
                          reinterpret_cast<ops::ClipFactors*>(out.data()));
      return out.host();
    };
    // Norm 5 of (3, 4): 2 / (5 + 1e-6).
    const auto cut = factors({9, 16}, 2);
    CHECK(cut[0] == cut[1]);
    CHECK(static_cast<double>(cut[1]) == Approx(2 / (5 + 1e-6)).epsilon(1e-7));
    CHECK(factors({9, 16}, 5.1) == std::vector<float>{1, 1});
    // Some sums are of gradients that are 8 times too long: the first, or those of each rank.
    for (const auto& both : {factors({9.0 * 64, 16}, 2, {0, 1, 1}),
                             factors({3, 4.0 * 64, 9, 5.0 * 64, 4}, 2, {1, 2, 2})}) {
      CHECK(both[1] == cut[1]);
      CHECK(both[0] == cut[1] * 0.125f);
    }
    CHECK(factors({0}, 3) == std::vector<float>{1, 1});
    const auto never = factors({HUGE_VAL}, 3);  // overflow leaves no trace
    CHECK(never == std::vector<float>{0, 0});
  }
}

TEST_CASE("square_sum and clip_gradients refuse what does not fit") {
  const OpDevice on(1);
  const DeviceTensor<float> x(on, nans(4));
  const DeviceTensor<double> few(on, std::vector<double>(ops::kBlockSums - 1)), sum(on, {0});
  CHECK_THROWS_AS(ops::square_sum(on.exec(), x, few, sum.data()), Error);
  ops::ClipFactors factors;
  CHECK_THROWS_AS(ops::clip_gradients(on.exec(), {}, 1, {}, &factors), Error);
  CHECK_THROWS_AS(ops::clip_gradients(on.exec(), sum, 0, {}, &factors), Error);
}

}  // namespace
}  // namespace hlite::test
