#include "hugectr_lite/config/evaluation_config.h"

#include "tests/support/catch.h"

namespace hlite::config {
namespace {

// Of a solver block that evaluates; `names` are those of its eval_metrics.
EvaluationConfig watches(const char* text, const std::vector<const char*>& names = {}) {
  const JsonNode node = JsonNode::parse(text, "s.json");
  Problems problems;
  EvaluationConfig evaluation;
  for (const char* const name : names) evaluation.metrics.push_back(metrics::find(name).value());
  {
    Block block(node, true, problems);
    declare(block, evaluation, true);
  }
  problems.raise();
  return evaluation;
}

}  // namespace

TEST_CASE("What watches a metric, as spelled and by default") {
  EvaluationConfig e = watches("{}");
  CHECK(!e.watches());
  CHECK(!e.group_slot);

  e = watches(R"({"lr_plateau": {}, "early_stop": {}})");
  REQUIRE(e.plateau);
  CHECK(e.plateau->watch.monitor == kAuc);
  CHECK(e.plateau->watch.rises());
  CHECK(e.plateau->watch.patience == 1);
  CHECK(e.plateau->watch.min_delta == 1e-6);
  CHECK(e.plateau->factor == 0.1);
  CHECK(e.plateau->min_lr == 1e-6);
  REQUIRE(e.early_stop);
  CHECK(e.early_stop->monitor == kAuc);
  CHECK(e.early_stop->patience == 2);
  CHECK(e.watches());

  e = watches(
      R"({"lr_plateau": {"monitor": "AverageLoss", "factor": 0.5, "patience": 3, "min_lr": 0,
      "min_delta": 0.25}, "early_stop": {"monitor": "GAUC", "patience": 7, "min_delta": 0},
      "eval_group_slot": 4})",
      {"GAUC", "Calibration"});
  CHECK(e.plateau->watch.monitor == kAverageLoss);
  CHECK(!e.plateau->watch.rises());
  CHECK(e.plateau->watch.patience == 3);
  CHECK(e.plateau->watch.min_delta == 0.25);
  CHECK(e.plateau->factor == 0.5);
  CHECK(e.plateau->min_lr == 0);
  CHECK(e.early_stop->monitor == "GAUC");
  CHECK(e.early_stop->rises());
  CHECK(e.early_stop->patience == 7);
  CHECK(e.early_stop->min_delta == 0);
  CHECK(e.group_slot == 4);
}

TEST_CASE("A metric is watched in the direction in which it gets better") {
  const auto rises = [](const char* name) { return WatchConfig{.monitor = name}.rises(); };
  for (const char* const name : {"AUC", "AUC-AverageLoss", "GAUC", "NDCG@3"}) CHECK(rises(name));
  for (const char* const name : {"AverageLoss", "RMSE"}) CHECK(!rises(name));
}

TEST_CASE("A calibration is watched by nothing: neither higher nor lower is better") {
  CHECK_THROWS_WITH(watches(R"({"early_stop": {"monitor": "Calibration"}})", {"Calibration"}),
                    "s.json:1: early_stop.monitor: expected one of \"AUC\", \"AverageLoss\", "
                    "\"AUC-AverageLoss\", found \"Calibration\"");
}

}  // namespace hlite::config
