// (ours, but the names of metrics) What the solver block says of evaluations beyond their size:
// further metrics, and what a metric that no longer gets better leads to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/metrics/metric.h"

namespace hlite::config {

inline constexpr const char *kAuc = "AUC", *kAverageLoss = "AverageLoss",
                            *kAucMinusLoss = "AUC-AverageLoss";

// A metric that is watched: an evaluation is better than the best so far when its value is higher
// (AverageLoss and others: lower) by at least min_delta.
struct WatchConfig {
  std::string monitor = kAuc;  // AUC, AverageLoss, AUC-AverageLoss or a metric's name
  double min_delta = 1e-6;
  int64_t patience = 1;  // evaluations in a row that are not better, before something follows
  [[nodiscard]] bool rises() const;
};

// Learning rates are multiplied by `factor`, but the network's not below min_lr.
struct LrPlateauConfig {
  WatchConfig watch;
  double factor = 0.1, min_lr = 1e-6;
};

struct EvaluationConfig {
  int64_t every_epochs = 0;              // eval_every_epochs; 0: by eval_interval
  std::vector<metrics::Metric> metrics;  // beside AUC and the mean loss
  std::optional<int64_t> group_slot;     // eval_group_slot: samples with its first key are a group
  std::optional<LrPlateauConfig> plateau;
  // Training ends, and the weights of the best evaluation come back.
  std::optional<WatchConfig> early_stop;

  [[nodiscard]] bool watches() const { return plateau || early_stop; }
};

// Declares keys of the solver block, after its eval_metrics. `evaluates`: the run has evaluations.
void declare(Block& solver, EvaluationConfig& evaluation, bool evaluates);

}  // namespace hlite::config
