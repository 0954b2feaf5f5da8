#include "hugectr_lite/ops/regularizer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/block_sums.h"
#include "tests/support/op_device.h"

namespace hlite::test {
namespace {

using ops::Penalty;
constexpr double kLambda = 0.25;

// The loss, which begins with 0.5, after the gradients, which are scaled by 8.
std::vector<float> penalty_on(const OpDevice& on, Penalty penalty, const std::vector<float>& w,
                              const std::vector<float>& dw, int64_t offset = 0) {
  const DeviceTensor<float> weights(on, w, offset), gradients(on, dw), loss(on, {0.5f});
  const DeviceTensor<float> scale(on, {8.0f});
  const DeviceTensor<double> workspace(on, std::vector<double>(ops::kBlockSums));
  ops::add_penalty<float>(
      on.exec(), weights, gradients, loss.data(),
      {.penalty = penalty, .lambda = kLambda, .scale = scale.data(), .workspace = workspace});
  auto all = gradients.host();
  all.push_back(loss.host()[0]);
  return all;
}

TEST_CASE("add_penalty adds the definition to loss and gradients", "[gpu]") {
  for_each_size<float>([](const OpDevice& on, int64_t n, int64_t offset) {
    for (const Penalty penalty : {Penalty::kL1, Penalty::kL2}) {
      const bool l1 = penalty == Penalty::kL1;
      auto w = random_values(n, 1);
      if (n > 3) w[3] = 0;
      const auto dw = random_values(n, 2);
      double sum = 0;
      std::vector<double> want;
      for (size_t i = 0; i < w.size(); ++i) {
        const double v = w[i], sign = v > 0 ? 1 : v < 0 ? -1 : 0;
        sum += l1 ? std::abs(v) : v * v / 2;
        want.push_back(dw[i] + kLambda * 8 * (l1 ? sign : v));
      }
      auto got = penalty_on(on, penalty, w, dw, offset);
      CHECK(static_cast<double>(got.back()) == Approx(0.5 + kLambda * sum).epsilon(1e-7));
      got.pop_back();
      check_close(got, want, {1e-6, 1e-6}, "dw");
    }
  });
}

TEST_CASE("add_penalty has the gradient of its loss") {
  for (const Penalty penalty : {Penalty::kL1, Penalty::kL2}) {
    for (const float w : {-2.0f, -0.25f, 0.5f, 3.0f}) {
      constexpr float kStep = 0.125f;  // exact: the penalty is a polynomial on each side of 0
      const double slope = (ops::penalty_term(penalty, w + kStep).loss -
                            ops::penalty_term(penalty, w - kStep).loss) /
                           (2.0 * kStep);
      CHECK(static_cast<double>(ops::penalty_term(penalty, w).gradient) == slope);
    }
  }
}

TEST_CASE("add_penalty gives the same bits on any threads") {
  check_same_bits([]<typename T>(const OpDevice& on) {
    return penalty_on(on, Penalty::kL2, random_values<T>(4099, 1), random_values<T>(4099, 2));
  });
}

TEST_CASE("add_penalty refuses what does not fit, and on a GPU a workspace that is too small") {
  const OpDevice on(1);
  const DeviceTensor<float> four(on, nans(4)), five(on, nans(5)), loss(on, {0});
  CHECK_THROWS_AS(ops::add_penalty<float>(on.exec(), four, five, loss.data(), {}), Error);
  CHECK_THROWS_AS(ops::add_penalty<float>(on.exec(), four, four, nullptr, {}), Error);
  CHECK_THROWS_AS(ops::add_penalty<float>(emulated_device().exec(), four, four, loss.data(), {}),
                  Error);
}

}  // namespace
}  // namespace hlite::test
