#include "hugectr_lite/ops/regularizer.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

TEST_CASE("add_penalty adds the definition to loss and gradients") {
  test::Threads threads(2);
  for (const int64_t n : {0, 1, 7, 1031}) {
    for (const Penalty penalty : {Penalty::kL1, Penalty::kL2}) {
      auto w = test::random_values(n, 1);
      if (n > 3) w[3] = 0;
      const auto before = test::random_values(n, 2);
      auto dw = before;
      std::vector<double> want;
      double sum = 0;
      constexpr double kLambda = 0.25;
      const float scale = 8;
      for (size_t i = 0; i < w.size(); ++i) {
        const double v = w[i], sign = v > 0 ? 1 : v < 0 ? -1 : 0;
        sum += penalty == Penalty::kL1 ? std::abs(v) : v * v / 2;
        want.push_back(before[i] + kLambda * 8 * (penalty == Penalty::kL1 ? sign : v));
      }
      float loss = 0.5f;
      add_penalty(threads.exec(), {w.data(), n}, {dw.data(), n}, &loss,
                  {.penalty = penalty, .lambda = kLambda, .scale = &scale});
      CAPTURE(n);
      CHECK(static_cast<double>(loss) == Approx(0.5 + kLambda * sum).epsilon(1e-6));
      test::check_close(test::span_of(dw), test::span_of(want), {1e-6, 1e-6}, "dw");
    }
  }
}

TEST_CASE("add_penalty has the gradient of its loss") {
  for (const Penalty penalty : {Penalty::kL1, Penalty::kL2}) {
    for (const float w : {-2.0f, -0.25f, 0.5f, 3.0f}) {
      constexpr float kStep = 0.125f;  // exact: the penalty is a polynomial on each side of 0
      const double slope =
          (penalty_term(penalty, w + kStep).loss - penalty_term(penalty, w - kStep).loss) /
          (2.0 * kStep);
      CHECK(static_cast<double>(penalty_term(penalty, w).gradient) == slope);
    }
  }
}

TEST_CASE("add_penalty refuses what does not fit") {
  test::Threads threads(1);
  std::vector<float> m(5);
  float loss = 0;
  const Vector<float> four(m.data(), 4), five(m.data(), 5);
  CHECK_THROWS_AS(add_penalty(threads.exec(), four, five, &loss, {}), Error);
  CHECK_THROWS_AS(add_penalty(threads.exec(), four, four, nullptr, {}), Error);
}

}  // namespace
}  // namespace hlite::ops
