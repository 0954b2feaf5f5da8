#include "hugectr_lite/trainer/run/metric_watch.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using trainer::EvalResult;
using trainer::MetricWatch;
using trainer::WatchVerdict;

EvalResult with_auc(std::optional<double> auc, double loss = 0.5) {
  EvalResult result;
  result.auc = auc;
  result.loss = loss;
  return result;
}

config::EvaluationConfig bars() {
  config::EvaluationConfig config;
  config.plateau = config::LrPlateauConfig{};
  config.early_stop = config::WatchConfig{};
  config.early_stop->patience = 2;
  return config;
}

// "k": keep, "c": cut, "s": stop, for each evaluation.
std::string verdicts(const config::EvaluationConfig& config, const std::vector<EvalResult>& seen) {
  MetricWatch watch(config);
  std::string all;
  for (const EvalResult& result : seen) {
    const WatchVerdict verdict = watch.see(result);
    all += verdict.keep ? "k" : "";
    all += verdict.cut ? "c" : "";
    all += verdict.stop ? "s" : "";
    all += ".";
  }
  return all;
}

TEST_CASE("every evaluation that is not better cuts the rate, and two in a row are the end") {
  std::vector<EvalResult> seen;
  for (const double auc : {0.7, 0.8, 0.8000005, 0.81, 0.79, 0.811, 0.811, 0.8110000001})
    seen.push_back(with_auc(auc));
  CHECK(verdicts(bars(), seen) == "k.k.c.k.c.k.c.cs.");
}

TEST_CASE("better means by min_delta at least") {
  auto config = bars();
  config.plateau->watch.min_delta = config.early_stop->min_delta = 0.25;
  CHECK(verdicts(config, {with_auc(0.5), with_auc(0.75), with_auc(0.99)}) == "k.k.c.");
}

TEST_CASE("the loss stands in for a metric that has not existed, until it does") {
  // Each is better: by its loss, then by being the first of its metric.
  CHECK(verdicts(bars(), {with_auc({}, 0.5), with_auc({}, 0.4), with_auc(0.1, 0.6)}) == "k.k.k.");
  CHECK(verdicts(bars(), {with_auc({}, 0.5), with_auc({}, 0.5), with_auc({}, 0.6)}) == "k.c.cs.");
  // One without the metric says nothing of those that have it: the next one counts.
  CHECK(verdicts(bars(), {with_auc(0.5), with_auc({}), with_auc({}), with_auc(0.4),
                          with_auc(0.4)}) == "k...c.cs.");
  const auto config = bars();
  MetricWatch first(config), second(config);
  CHECK(first.see(with_auc({}, 0.5)).by_loss);
  CHECK(MetricWatch::watched(*config.early_stop, first.early_stop()) == "AverageLoss");
  second.restore(first.plateau(), first.early_stop());
  CHECK_FALSE(second.see(with_auc({}, 0.6)).keep);
  CHECK_FALSE(second.see(with_auc(0.1)).by_loss);
  CHECK(MetricWatch::watched(*config.early_stop, second.early_stop()) == "AUC");
}

TEST_CASE("the loss is to fall, and differences and further metrics to rise") {
  auto config = bars();
  config.plateau.reset();
  config.early_stop->monitor = "AverageLoss";
  CHECK(verdicts(config, {with_auc(0.7, 0.5), with_auc(0.6, 0.4), with_auc(0.8, 0.4)}) == "k.k..");
  config.early_stop->monitor = "AUC-AverageLoss";
  CHECK(verdicts(config, {with_auc(0.7, 0.5), with_auc(0.6, 0.3), with_auc({}, 0.1)}) == "k.k..");
  config.early_stop->monitor = "NDCG@5";
  EvalResult low = with_auc(0.9), high = with_auc(0.1);
  low.more = {{"GAUC", 0.9}, {"NDCG@5", 0.2}};
  high.more = {{"GAUC", 0.1}, {"NDCG@5", 0.3}};
  CHECK(verdicts(config, {low, high, low}) == "k.k..");
  CHECK_THROWS_AS(verdicts(config, {with_auc(0.5)}), Error);
}

TEST_CASE("patience counts evaluations since the best one, or since the last cut") {
  auto config = bars();
  config.plateau->watch.patience = 2;
  config.early_stop->patience = 5;
  std::vector<EvalResult> seen(6, with_auc(0.5));
  CHECK(verdicts(config, seen) == "k..c..c.s.");
}

TEST_CASE("rates are multiplied by the factor, and the network's stay above min_lr") {
  const auto config = bars();
  const MetricWatch watch(config);
  CHECK(watch.next_scale(1, 1e-3) == 0.1f);
  CHECK(watch.next_scale(0.1f, 1e-3) == Approx(0.01));
  CHECK(watch.next_scale(0.002f, 1e-3) == 1e-3f);  // 1e-6
  CHECK(watch.next_scale(1e-3f, 1e-3) == 1e-3f);
  CHECK(watch.next_scale(1, 1e-7) == 1);  // never raised
  CHECK(watch.next_scale(1, 0) == 0.1f);
}

TEST_CASE("a watch goes on from what a checkpoint kept") {
  const auto config = bars();
  MetricWatch first(config), second(config);
  first.see(with_auc(0.7));
  first.see(with_auc(0.6));
  second.restore(first.plateau(), first.early_stop());
  CHECK(second.see(with_auc(0.65)).stop);
}

}  // namespace
}  // namespace hlite::test
