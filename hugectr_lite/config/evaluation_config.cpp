#include "hugectr_lite/config/evaluation_config.h"

#include <algorithm>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"

namespace hlite::config {
namespace {

constexpr int64_t kMostEvaluations = std::numeric_limits<int32_t>::max();

void parse_watch(ObjectReader& block, const EvaluationConfig& evaluation, WatchConfig& watch) {
  std::vector<std::string> names = {kAuc, kAverageLoss, kAucMinusLoss};
  for (const EvalMetric& metric : evaluation.metrics)
    if (metric.kind != MetricKind::kCalibration) names.push_back(metric.name);
  watch.monitor = block.choice_or("monitor", kAuc, names);
  watch.min_delta = block.number_or("min_delta", watch.min_delta, {.min = 0});
  watch.patience = block.integer_or("patience", watch.patience, {1, kMostEvaluations});
}

LrPlateauConfig parse_lr_plateau(ObjectReader block, const EvaluationConfig& evaluation) {
  LrPlateauConfig plateau;
  parse_watch(block, evaluation, plateau.watch);
  plateau.factor = block.number_or("factor", plateau.factor, {0, 1});
  if (plateau.factor == 0 || plateau.factor == 1)
    fail_expected(block.member("factor"), "a number between 0 and 1");
  plateau.min_lr = block.number_or("min_lr", plateau.min_lr, {.min = 0});
  block.finish();
  return plateau;
}

}  // namespace

std::optional<EvalMetric> eval_metric(const std::string& name) {
  if (name == "Calibration") return EvalMetric{MetricKind::kCalibration, 0, name};
  if (name == "GAUC") return EvalMetric{MetricKind::kGroupAuc, 0, name};
  const size_t at = name.find('@');
  if (at == std::string::npos) return std::nullopt;
  const auto k = parse_number<int64_t>(std::string_view(name).substr(at + 1));
  if (!k || *k < 1) return std::nullopt;
  const std::string kind = name.substr(0, at);
  if (kind == "NDCG") return EvalMetric{MetricKind::kNdcg, *k, name};
  if (kind == "HitRate") return EvalMetric{MetricKind::kHitRate, *k, name};
  return std::nullopt;
}

void parse_watches(ObjectReader& solver, bool evaluates, EvaluationConfig& evaluation) {
  const auto grouped =
      std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(), is_grouped);
  if (solver.has("eval_group_slot")) {
    evaluation.group_slot = solver.integer("eval_group_slot", {.min = 0});
    if (grouped == evaluation.metrics.end())
      fail_at(solver.member("eval_group_slot"),
              "expected GAUC, NDCG@k or HitRate@k in eval_metrics beside it, found none");
  } else if (grouped != evaluation.metrics.end()) {
    fail_at(solver.member("eval_metrics"),
            fmt::format("expected eval_group_slot beside {}, the slot whose key says which samples "
                        "belong together, found none",
                        grouped->name));
  }
  for (const char* key : {"lr_plateau", "early_stop"})
    if (solver.has(key) && !evaluates)
      fail_at(solver.member(key),
              "expected eval_every_epochs or eval_interval beside it, found neither");
  if (solver.has("lr_plateau"))
    evaluation.lr_plateau = parse_lr_plateau(solver.object("lr_plateau"), evaluation);
  if (!solver.has("early_stop")) return;
  auto block = solver.object("early_stop");
  evaluation.early_stop = WatchConfig{.patience = 2};
  parse_watch(block, evaluation, *evaluation.early_stop);
  block.finish();
}

}  // namespace hlite::config
