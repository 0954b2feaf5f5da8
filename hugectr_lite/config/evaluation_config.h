// (ours, but the names of metrics) What the solver block says of evaluations beyond their size:
// further metrics, and what a metric that no longer gets better leads to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/block.h"

namespace hlite::config {

// The metrics of ops/group_metrics.h.
enum class MetricKind { kCalibration, kGroupAuc, kNdcg, kHitRate };

// A metric beside AUC and the mean loss, which are always taken.
struct EvalMetric {
  MetricKind kind = MetricKind::kCalibration;
  int64_t k = 0;     // NDCG@k, HitRate@k
  std::string name;  // as in the config: "NDCG@10"
};
// Returns true if it is taken group by group.
inline bool is_grouped(const EvalMetric& metric) { return metric.kind != MetricKind::kCalibration; }
// "Calibration", "GAUC", "NDCG@k", "HitRate@k"; nothing for any other name.
std::optional<EvalMetric> eval_metric(const std::string& name);

inline constexpr const char *kAuc = "AUC", *kAverageLoss = "AverageLoss",
                            *kAucMinusLoss = "AUC-AverageLoss";

// A metric that is watched: an evaluation is better than the best so far when its value is higher
// (AverageLoss: lower) by at least min_delta.
struct WatchConfig {
  std::string monitor = kAuc;  // AUC, AverageLoss, AUC-AverageLoss or the name of an EvalMetric
  double min_delta = 1e-6;
  int64_t patience = 1;  // evaluations in a row that are not better, before something follows
  [[nodiscard]] bool rises() const { return monitor != kAverageLoss; }
};

// Learning rates are multiplied by `factor`, but the network's not below min_lr.
struct LrPlateauConfig {
  WatchConfig watch;
  double factor = 0.1, min_lr = 1e-6;
};

struct EvaluationConfig {
  int64_t every_epochs = 0;  // eval_every_epochs; 0: by eval_interval
  std::vector<EvalMetric> metrics;
  std::optional<int64_t> group_slot;  // eval_group_slot: samples with its first key are a group
  std::optional<LrPlateauConfig> plateau;
  // Training ends, and the weights of the best evaluation come back.
  std::optional<WatchConfig> early_stop;

  [[nodiscard]] bool watches() const { return plateau || early_stop; }
};

// Declares keys of the solver block, after its eval_metrics. `evaluates`: the run has evaluations.
void declare(Block& solver, EvaluationConfig& evaluation, bool evaluates);

}  // namespace hlite::config
