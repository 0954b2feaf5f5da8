// MetricWatch: what follows from an evaluation whose metric is better than before, or is not:
// weights worth keeping, a lower learning rate (solver.lr_plateau), the end (solver.early_stop).
// The rule is that of BARS (Zhu et al., "Open Benchmarking for Click-Through Rate Prediction", CIKM
// 2021): with patience 1 every evaluation that is not better cuts the rate.
//
// As long as a metric has not existed, as the AUC of an evaluation set of one class, the loss stands
// in for it. Where one that has existed does not exist for once, the evaluation counts for nothing.
#pragma once

#include <optional>
#include <string>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/evaluation_config.h"
#include "hugectr_lite/trainer/evaluation/evaluator.h"

namespace hlite::trainer {

// The value of a metric by its name (config::WatchConfig::monitor); nothing where it does not
// exist, as the AUC of one class.
std::optional<double> metric_value(const EvalResult& result, const std::string& name);

struct WatchVerdict {
  bool keep = false;  // the best evaluation so far, where early_stop looks for one
  bool cut = false;   // the learning rate
  bool stop = false;
  bool by_loss = false;  // the loss stood in for a metric
};

class MetricWatch {
 public:
  explicit MetricWatch(const config::EvaluationConfig& config) : config_(config) {}
  // Takes in an evaluation, after an iteration or at 0, which is none.
  WatchVerdict see(const EvalResult& result, int64_t iteration = 0);
  // The name of the metric whose best value `best` holds.
  [[nodiscard]] static std::string watched(const config::WatchConfig& watch,
                                           const checkpoint::BestMetric& best);
  // The next scale of learning rates after a cut, for schedules whose network rate is `base`.
  [[nodiscard]] float next_scale(float scale, double base) const;

  // The state that a checkpoint keeps.
  [[nodiscard]] const checkpoint::BestMetric& plateau() const { return plateau_; }
  [[nodiscard]] const checkpoint::BestMetric& early_stop() const { return early_stop_; }
  void restore(const checkpoint::BestMetric& plateau, const checkpoint::BestMetric& early_stop);

 private:
  const config::EvaluationConfig& config_;
  checkpoint::BestMetric plateau_, early_stop_;
};

}  // namespace hlite::trainer
