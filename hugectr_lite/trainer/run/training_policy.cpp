#include "hugectr_lite/trainer/run/training_policy.h"

#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/log.h"

namespace hlite::trainer {

// Returns true if an evaluation set of one class leaves the run without what it looks at.
static bool needs_both_classes(const config::SolverConfig& solver) {
  const auto watches_auc = [](const config::WatchConfig& watch) {
    return watch.monitor == config::kAuc || watch.monitor == config::kAucMinusLoss;
  };
  const config::EvaluationConfig& evaluation = solver.evaluation;
  return solver.auc_target || (evaluation.plateau && watches_auc(evaluation.plateau->watch)) ||
         (evaluation.early_stop && watches_auc(*evaluation.early_stop));
}

// "no improvement in 3 evaluations"
static std::string no_improvement(int64_t evaluations) {
  return fmt::format("no improvement in {} evaluation{}", evaluations, evaluations == 1 ? "" : "s");
}

TrainingPolicy::TrainingPolicy(Trainer& trainer)
    : run_(trainer.context()),
      saver_(trainer.saver()),
      config_(run_.config.solver.evaluation),
      watch_(config_),
      best_(run_, saver_, /*with_states=*/false),
      last_(run_, saver_, /*with_states=*/true) {
  const Evaluator* const evaluator = trainer.evaluations().evaluator();
  if (evaluator && needs_both_classes(run_.config.solver) && !evaluator->has_both_classes())
    warn_of_no_metric(evaluator->place() +
                      ": expected labels of both classes, found one: AUC does not exist");
  const checkpoint::CheckpointMeta* const resumed = run_.resumed.get();
  if (!resumed) return;
  // Without early_stop there are no weights but the last ones from here on.
  watch_.restore(resumed->plateau,
                 config_.early_stop ? resumed->early_stop : checkpoint::BestMetric{});
  if (!config_.early_stop) return;
  if (auto file = checkpoint::open_best_weights(run_.options.resume, *resumed))
    best_.adopt(std::move(file), resumed->files.back().sum);
}

void TrainingPolicy::warn_of_no_metric(const std::string& why) {
  if (std::exchange(warned_, true) || run_.ranks.rank != 0) return;
  const bool target = run_.config.solver.auc_target.has_value();
  log::warning("{}{}{}", why, config_.watches() ? "; AverageLoss is watched instead" : "",
               target ? "; the target AUC is out of reach" : "");
}

std::optional<EndReason> TrainingPolicy::apply(const EvalResult& result) {
  const WatchVerdict verdict = watch_.see(result, run_.iteration);
  if (verdict.by_loss)
    warn_of_no_metric("a metric that is watched does not exist in an evaluation");
  if (verdict.keep) best_.keep("best.safetensors");
  Progress& progress = run_.progress;
  // Also at the end, for a checkpoint that goes on with more patience.
  if (verdict.cut) {
    LearningRates& rates = run_.model->rates();
    rates.set_scale(watch_.next_scale(rates.scale(), run_.config.optimizer.schedule.base));
    progress.line(fmt::format("Reducing the learning rates to {:g} of the config's: {}.",
                              rates.scale(), no_improvement(config_.plateau->watch.patience)));
  }
  if (verdict.stop)
    progress.line(fmt::format("Stopping early: {}.", no_improvement(watch_.early_stop().waited)));
  const auto& target = run_.config.solver.auc_target;
  if (target && result.auc && *result.auc >= *target) {
    progress.line(fmt::format("Reached the target AUC of {}.", *target));
    return EndReason::kTarget;
  }
  return verdict.stop ? std::optional(EndReason::kEarlyStop) : std::nullopt;
}

bool TrainingPolicy::stopped_early() const {
  return config_.early_stop && watch_.early_stop().waited >= config_.early_stop->patience;
}

void TrainingPolicy::use_best(bool for_good) {
  if (!config_.early_stop || !best_.file() || best_in_use_) return;
  if (!for_good) last_.keep("last.safetensors");
  best_.load();
  best_in_use_ = true;
  const checkpoint::BestMetric& best = watch_.early_stop();
  run_.progress.line(fmt::format(
      "Restored the best weights ({} {:.5f}{}).", MetricWatch::watched(*config_.early_stop, best),
      best.value,
      best.iteration > 0 ? fmt::format(", iteration {}", count_text(best.iteration)) : ""));
}

void TrainingPolicy::use_last() {
  if (!best_in_use_) return;
  last_.load();
  last_.drop();
  best_in_use_ = false;
}

void TrainingPolicy::take_weights() {
  last_.drop();
  best_.drop();
  watch_.restore(watch_.plateau(), {});
  best_in_use_ = false;
}

void TrainingPolicy::save_by(const std::function<void(const PolicyState&)>& write) {
  const bool best = best_in_use_;
  use_last();
  write({.plateau = watch_.plateau(),
         .early_stop = watch_.early_stop(),
         .best_weights = best_.file()});
  if (best) use_best(/*for_good=*/false);
}

}  // namespace hlite::trainer
