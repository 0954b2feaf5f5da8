// TrainingPolicy: what evaluations lead to, as the solver block says: lower learning rates, the
// end of training (early_stop, a target AUC), and which weights a model is used with: those of its
// best evaluation, with early_stop.
//
// With early_stop there are two sets of weights. Training goes on from the last ones, which belong
// to the optimizer's states and to the position in the data. The best ones are evaluated, exported
// and predicted with once training has ended. A checkpoint holds both.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hugectr_lite/trainer/run/kept_weights.h"
#include "hugectr_lite/trainer/run/metric_watch.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace hlite::trainer {

class TrainingPolicy {
 public:
  // Goes on as the checkpoint of --resume says. Warns if the AUC of the evaluation set is looked at
  // and does not exist. The trainer must have been started and must outlive this. Collective.
  explicit TrainingPolicy(Trainer& trainer);

  // Acts on an evaluation: keeps the weights of the best one and lowers learning rates. Returns why
  // training ends, if it does. This and all that follows is collective.
  std::optional<EndReason> apply(const EvalResult& result);
  // Returns true if evaluations before a resume have ended training.
  [[nodiscard]] bool stopped_early() const;

  // Puts the best weights into the model, where there are any, and the last ones back, which is
  // needed before a step. `for_good`: no step will follow, and use_last() must not.
  void use_best(bool for_good);
  void use_last();
  // The weights in the model are the caller's: neither the best nor the last ones come back, and the
  // next evaluation is the first of them.
  void take_weights();
  // Saver::save() with the last weights, whichever are in the model.
  void save(const std::string& directory) {
    save_by([&](const PolicyState& state) { saver_.save(directory, state); });
  }
  // Saver::save_delta(), while the last weights are in the model: to the weights that a checkpoint
  // would be used with.
  [[nodiscard]] std::string save_delta(const std::string& chain) {
    std::string failure;
    save_by([&](const PolicyState& state) { failure = saver_.save_delta(chain, state); });
    return failure;
  }
  // Saver::save_snapshot(), while the last weights are in the model.
  void save_snapshot(const std::string& directory) {
    save_by([&](const PolicyState& state) { saver_.save_snapshot(directory, state); });
  }

 private:
  void save_by(const std::function<void(const PolicyState&)>& write);
  void warn_of_no_metric(const std::string& why);  // once, on rank 0

  RunContext& run_;
  Saver& saver_;
  const config::EvaluationConfig& config_;
  MetricWatch watch_;
  KeptWeights best_, last_;
  bool best_in_use_ = false, warned_ = false;
};

}  // namespace hlite::trainer
