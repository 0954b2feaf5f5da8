#include "hugectr_lite/ops/metrics.h"

#include <cmath>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/compare.h"

namespace hlite::test {
namespace {

// The definition: every pair of a positive and a negative.
double pairwise_auc(const std::vector<float>& scores, const std::vector<float>& labels) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j)
      if (labels[i] > 0.5f && labels[j] <= 0.5f) {
        won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
        pairs += 1;
      }
  return won / pairs;
}

}  // namespace

TEST_CASE("AUC equals its definition, ties included") {
  for (const int n : {2, 3, 7, 100, 997})
    for (const int levels : {1, 2, 5, 1000000}) {
      std::vector<float> scores(static_cast<size_t>(n)), labels(scores.size());
      for (size_t i = 0; i < scores.size(); ++i) {
        const auto level = static_cast<int>(random::word(1, 0, i) % static_cast<uint32_t>(levels));
        scores[i] = static_cast<float>(level - levels / 2) * 0.37f;
        labels[i] = random::word(2, 0, i) % 3 == 0 ? 1.0f : 0.0f;
      }
      labels[0] = 1;
      labels[1] = 0;
      INFO(n << " samples, " << levels << " levels");
      CHECK(ops::auc(scores, labels).value() ==
            Approx(pairwise_auc(scores, labels)).epsilon(1e-12));
    }
}

TEST_CASE("AUC of special scores") {
  using V = std::vector<float>;
  const float inf = INFINITY;
  CHECK(ops::auc(V{1, 2}, V{0, 1}).value() == 1);
  CHECK(ops::auc(V{2, 1}, V{0, 1}).value() == 0);
  CHECK(ops::auc(V{0.0f, -0.0f}, V{0, 1}).value() == 0.5);  // both zeros are one score
  CHECK(ops::auc(V{-inf, -1, 1e-40f, inf}, V{0, 0, 1, 1}).value() == 1);
  CHECK(ops::auc(V{-1, -2, -3}, V{1, 0, 0}).value() == 1);
  CHECK(!ops::auc(V{1, 2}, V{1, 1}));
  CHECK(!ops::auc(V{1, 2}, V{0, 0}));
  CHECK(!ops::auc(V{}, V{}));
  CHECK_THROWS_AS(ops::auc(V{1, NAN}, V{0, 1}), DataError);
  CHECK_THROWS_AS(ops::auc(V{1}, V{0, 1}), Error);
}

TEST_CASE("AUC of many samples neither loses counts nor order") {
  const size_t n = 300000;
  std::vector<float> scores(n), labels(n);
  double expected = 0;  // the k-th negative from below loses to every positive above it
  uint64_t negatives = 0, positives = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t rank = i * 7919 % n;
    scores[rank] = static_cast<float>(i);
    labels[rank] = random::word(3, 0, i) % 4 == 0 ? 1.0f : 0.0f;
    if (labels[rank] > 0.5f) {
      ++positives;
      expected += static_cast<double>(negatives);
    } else {
      ++negatives;
    }
  }
  expected /= static_cast<double>(positives) * static_cast<double>(negatives);
  CHECK(ops::auc(scores, labels).value() == Approx(expected).epsilon(1e-12));
}

TEST_CASE("log loss equals its definition for any thread count") {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{1000}, size_t{50001}}) {
    std::vector<float> z(n), y(n);
    fill_random(z, 4, -30, 30);
    for (size_t i = 0; i < n; ++i) y[i] = i % 3 == 0 ? 1.0f : 0.0f;
    double want = 0;
    for (size_t i = 0; i < n; ++i) {
      const double p = 1 / (1 + std::exp(-static_cast<double>(z[i])));
      want -= y[i] > 0.5f ? std::log(p) : std::log1p(-p);
    }
    if (n > 0) want /= static_cast<double>(n);
    ThreadPool one(1), three(3);
    const double got = ops::log_loss({.device = Device::kCpu, .pool = &one}, z, y);
    CHECK(got ==
          Approx(want).epsilon(1e-3));  // log1p(-p) loses digits near p = 1, the code does not
    CHECK(got == ops::log_loss({.device = Device::kCpu, .pool = &three}, z, y));
  }
}

}  // namespace hlite::test
