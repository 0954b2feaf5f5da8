// Metrics of samples, against their definitions.
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/metrics/taken.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using Floats = std::vector<float>;

// n samples with `distinct` scores at most, a share of which is positive.
struct Drawn {
  Floats scores, labels, weights;
  Drawn(size_t n, int distinct, unsigned share_of_5, unsigned seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < n; ++i) {
      scores.push_back(static_cast<float>(static_cast<int>(random() % 5000) % distinct) * 0.25f -
                       2);
      labels.push_back(random() % 5 < share_of_5 ? 1.0f : 0.0f);
      weights.push_back(static_cast<float>(random() % 4) * 0.5f);
    }
  }
};

// By the definition: for each threshold the samples at or above it are counted anew.
std::optional<double> average_precision(const Floats& scores, const Floats& labels,
                                        const Floats& weights) {
  const auto at_least = [&](double threshold, bool only_positive) {
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i)
      if (static_cast<double>(scores[i]) >= threshold && (!only_positive || labels[i] > 0.5f))
        sum += weights.empty() ? 1.0 : static_cast<double>(weights[i]);
    return sum;
  };
  const double positives = at_least(-1e9, true);
  if (positives == 0) return std::nullopt;
  double sum = 0, recall_before = 0;
  const std::set<double, std::greater<>> thresholds(scores.begin(), scores.end());
  for (const double threshold : thresholds) {
    const double true_positives = at_least(threshold, true), all = at_least(threshold, false);
    if (all == 0) continue;
    sum += (true_positives / positives - recall_before) * (true_positives / all);
    recall_before = true_positives / positives;
  }
  return sum;
}

TEST_CASE("AUPRC is the average precision: ties, weights, and one class") {
  for (const size_t n : {0, 1, 2, 7, 333})
    for (const int distinct : {1, 3, 5000})
      for (const unsigned share : {0u, 1u, 5u}) {
        INFO(n << " samples, " << distinct << " scores, " << share << " fifths positive");
        const Drawn of(n, distinct, share, static_cast<unsigned>(n) + share);
        for (const Floats& weights : {Floats(), of.weights}) {
          const auto want = average_precision(of.scores, of.labels, weights),
                     got = taken("AUPRC", {of.scores, of.labels, weights});
          REQUIRE(got.has_value() == want.has_value());
          if (want) CHECK(*got == Approx(*want).epsilon(1e-12));
          if (want && share == 5) CHECK(*got == 1);
        }
      }
  // scikit-learn: average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).
  const Floats labels = {0, 0, 1, 1}, scores = {0.1f, 0.4f, 0.35f, 0.8f}, zeros = {0.0f, -0.0f},
               both = {1, 0}, nan = {1, std::numeric_limits<float>::quiet_NaN()};
  CHECK(*taken("AUPRC", {scores, labels}) == Approx(0.8333333333333333).epsilon(1e-15));
  CHECK(*taken("AUPRC", {zeros, both}) == 0.5);
  CHECK_THROWS_AS(taken("AUPRC", {nan, both}), DataError);
}

TEST_CASE("the order of samples changes no bit of AUPRC") {
  const Drawn of(997, 50, 2, 3);
  std::vector<size_t> order(997);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(9));
  Floats scores, labels;
  for (const size_t i : order) {
    scores.push_back(of.scores[i]);
    labels.push_back(of.labels[i]);
  }
  CHECK(*taken("AUPRC", {scores, labels}) == *taken("AUPRC", {of.scores, of.labels}));
}

TEST_CASE("calibration is predicted over found positives") {
  const Floats logits = {0.0f, 1.0f, -2.0f, 80.0f}, labels = {1, 0, 0, 1}, none(4);
  double predicted = 0;
  for (const float z : logits) predicted += 1 / (1 + std::exp(-static_cast<double>(z)));
  CHECK(*taken("Calibration", {logits, labels}) == Approx(predicted / 2).epsilon(1e-14));
  CHECK(!taken("Calibration", {logits, none}));
  CHECK(!taken("Calibration", {}));
  // Weighted: (0.5 * 2 + sigmoid(-2) * 3) / (1 * 2).
  const Floats weights = {2, 0, 3, 0}, of_negatives = {0, 1, 1, 0};
  CHECK(*taken("Calibration", {logits, labels, weights}) ==
        Approx((1 + 3 / (1 + std::exp(2.0))) / 2).epsilon(1e-14));
  CHECK(!taken("Calibration", {logits, labels, of_negatives}));
}

TEST_CASE("normalized entropy is the loss over that of the mean label") {
  for (const size_t n : {1, 2, 7, 333})
    for (const unsigned share : {0u, 2u, 5u}) {
      INFO(n << " samples, " << share << " fifths positive");
      const Drawn of(n, 5000, share, static_cast<unsigned>(n));
      for (const Floats& weights : {Floats(), of.weights}) {
        double positives = 0, all = 0, loss = 0, of_mean = 0;
        const auto each = [&](auto&& add) {
          for (size_t i = 0; i < n; ++i)
            add(weights.empty() ? 1.0 : static_cast<double>(weights[i]), of.labels[i] > 0.5f,
                static_cast<double>(of.scores[i]) / 100);
        };
        each([&](double weight, bool positive, double z) {
          positives += positive ? weight : 0;
          all += weight;
          loss += weight * std::log1p(std::exp(positive ? -z : z));
        });
        const double mean = positives / all;
        each([&](double weight, bool positive, double) {
          of_mean -= weight * std::log(positive ? mean : 1 - mean);
        });
        const auto got =
            taken("NormalizedEntropy", {of.scores, of.labels, weights, {}, loss / all});
        REQUIRE(got.has_value() == (positives > 0 && positives < all));
        if (got) CHECK(*got == Approx(loss / of_mean).epsilon(1e-12));
      }
    }
  CHECK(!taken("NormalizedEntropy", {}));
}

TEST_CASE("MAE is the mean absolute error") {
  const Floats values = {1, -2, 3.5f}, labels = {2, 2, 3}, weights = {1, 0, 3}, zeros(3);
  CHECK(*taken("MAE", {values, labels}) == Approx((1 + 4 + 0.5) / 3).epsilon(1e-15));
  CHECK(*taken("MAE", {values, labels, weights}) == Approx((1 + 1.5) / 4).epsilon(1e-15));
  CHECK(!taken("MAE", {values, labels, zeros}));
  CHECK(!taken("MAE", {}));
}

TEST_CASE("RMSE is the root of the mean squared error") {
  CHECK(*taken("RMSE", {{}, {}, {}, {}, 2.25}) == 1.5);
}

}  // namespace
}  // namespace hlite::test
