#include "hugectr_lite/config/evaluation_config.h"

#include <algorithm>
#include <limits>

#include "hugectr_lite/core/error.h"

namespace hlite::config {
namespace {

constexpr int64_t kMaxEvaluations = std::numeric_limits<int32_t>::max();

void declare_watch(Block& s, const EvaluationConfig& evaluation, WatchConfig& watch) {
  std::vector<std::string> names = {kAuc, kAverageLoss, kAucMinusLoss};
  for (const metrics::Metric& metric : evaluation.metrics)
    if (metrics::watchable(*metric.rule)) names.push_back(metric.name);
  s.value(
      "monitor",
      {choice_text(names),
       fmt::format(R"("type":"string","pattern":"^(AUC|AverageLoss|AUC-AverageLoss|{})$")",
                   metrics::names_pattern(metrics::watchable))},
      "The metric; one of `eval_metrics` is possible too, where higher or lower is better. While "
      "it does not exist, as the AUC of one class, `AverageLoss` is watched.",
      otherwise("`\"AUC\"`"),
      [&](const JsonNode& node) { watch.monitor = to_choice(node, names); });
  s.integer("patience", &watch.patience, {1, kMaxEvaluations},
            "Evaluations in a row without improvement.");
  s.number("min_delta", &watch.min_delta, {.min = 0},
           "The least difference that is an improvement.");
}

}  // namespace

bool WatchConfig::rises() const {
  const auto metric = metrics::find(monitor);
  return metric ? metric->rule->better == metrics::Better::kHigher : monitor != kAverageLoss;
}

void declare(Block& s, EvaluationConfig& evaluation, bool evaluates) {
  const auto grouped =
      std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(), metrics::is_grouped);
  const bool none = grouped == evaluation.metrics.end();
  s.integer(
      "eval_group_slot", &evaluation.group_slot, {.min = 0},
      fmt::format("Extension: samples with the same first key in this slot are a group, for {}.",
                  metrics::names_text(metrics::grouped, "`", "and"))
          .c_str());
  if (evaluation.group_slot && none)
    s.refuse("eval_group_slot", metrics::names_text(metrics::grouped, "") +
                                    " in eval_metrics is required with eval_group_slot");
  if (!none && !s.has("eval_group_slot"))
    s.refuse(
        "eval_metrics",
        fmt::format("eval_group_slot, the slot whose key groups the samples, is required with {}",
                    grouped->name));
  if (auto block = s.object("lr_plateau",
                            "Extension: lowers learning rates when a metric stops improving.")) {
    block->about(
        "After `patience` evaluations in a row without improvement, learning rates are "
        "multiplied by `factor`.");
    LrPlateauConfig& plateau = evaluation.plateau.emplace();
    declare_watch(*block, evaluation, plateau.watch);
    block->number("factor", &plateau.factor,
                  {.min = 0, .max = 1, .without_min = true, .without_max = true},
                  "Learning rates are multiplied by this.");
    block->number("min_lr", &plateau.min_lr, {.min = 0},
                  "The dense learning rate is not lowered further.");
  }
  if (auto block =
          s.object("early_stop", "Extension: stops training when a metric stops improving.")) {
    block->about(
        "Stops after `patience` evaluations in a row without improvement. The best weights "
        "are always restored.");
    evaluation.early_stop = WatchConfig{.patience = 2};
    declare_watch(*block, evaluation, *evaluation.early_stop);
  }
  for (const char* key : {"lr_plateau", "early_stop"})
    if (s.has(key) && !evaluates)
      s.refuse(key, "eval_every_epochs or eval_interval is required with it");
}

}  // namespace hlite::config
