#include "hugectr_lite/preparation/synth/score.h"

#include <cmath>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/scores.h"

namespace hlite::prep {
namespace {

using test::area_under_curve, test::log_loss;

TEST_CASE("area_under_curve counts pairs, ties half") {
  std::vector<uint8_t> y;
  std::vector<double> p;
  for (uint64_t i = 0; i < 301; ++i) {
    y.push_back(random::word(1, 1, i) % 3 == 0);
    p.push_back(random::word(1, 2, i) % 40 / 40.0);
  }
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) {
      if (y[i] == 1 && y[j] == 0) {
        pairs += 1;
        wins += p[i] > p[j] ? 1.0 : p[i] == p[j] ? 0.5 : 0.0;
      }
    }
  }
  CHECK(area_under_curve(y, p) == Approx(wins / pairs).epsilon(1e-12));
  CHECK(area_under_curve({1, 1}, {0.1, 0.2}) == 0.5);
  CHECK(area_under_curve({0, 1}, {0.1, 0.2}) == 1.0);
}

TEST_CASE("expected_area_under_curve is the ratio of expected pairs") {
  std::vector<double> p;
  for (uint64_t i = 0; i < 50; ++i) p.push_back(random::uniform(random::word(2, 1, i)));
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = 0; j < p.size(); ++j) {
      if (i == j) continue;
      const double weight = p[i] * (1 - p[j]);
      pairs += weight;
      if (p[i] > p[j]) wins += weight;
    }
  }
  CHECK(expected_area_under_curve(p) == Approx(wins / pairs).epsilon(1e-12));
}

TEST_CASE("log_loss is the mean of the negative log-likelihood, finite at 0 and 1") {
  CHECK(log_loss({1, 0}, {0.8, 0.3}) == Approx(-(std::log(0.8) + std::log(0.7)) / 2));
  CHECK(std::isfinite(log_loss({1}, {0.0})));
}

TEST_CASE("the loss of a logit is that of its probability, without losing extreme ones") {
  for (const double z : {-3.0, -0.1, 0.0, 0.7, 5.0}) {
    const double p = 1 / (1 + std::exp(-z));
    CHECK(logit_loss(z, true) == Approx(-std::log(p)));
    CHECK(logit_loss(z, false) == Approx(-std::log(1 - p)));
  }
  CHECK(logit_loss(-800, true) == Approx(800.0));
  CHECK(logit_loss(800, true) == 0.0);
}

TEST_CASE("the histogram's AUC is the exact one but for ties of a bin") {
  for (const int rows : {0, 1, 2, 5000}) {
    LogitHistogram histogram;
    std::vector<uint8_t> y;
    std::vector<double> z;
    int64_t positives = 0;
    for (uint64_t i = 0; i < static_cast<uint64_t>(rows); ++i) {
      // Some far outside of the range, some equal.
      z.push_back(i % 50 == 0 ? 100.0 * static_cast<double>(i % 3) - 100
                              : 8 * random::uniform(random::word(4, 1, i)) - 5);
      y.push_back(random::uniform(random::word(4, 2, i)) < 1 / (1 + std::exp(-z.back())));
      positives += y.back();
      histogram.add(z.back(), y.back() != 0);
    }
    CHECK(histogram.positives() == positives);
    CHECK(histogram.area_under_curve() == Approx(area_under_curve(y, z)).margin(1e-5));
  }
}

}  // namespace
}  // namespace hlite::prep
