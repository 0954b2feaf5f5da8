#include "hugectr_lite/trainer/run/training_policy.h"

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {

TrainingPolicy::TrainingPolicy(Trainer& trainer)
    : trainer_(trainer),
      config_(trainer.config().solver.evaluation),
      watch_(config_),
      best_(trainer, /*with_states=*/false),
      last_(trainer, /*with_states=*/true) {
  const checkpoint::CheckpointMeta* const resumed = trainer.resumed();
  if (!resumed) return;
  // Without early_stop there are no weights but the last ones from here on.
  watch_.restore(resumed->plateau,
                 config_.early_stop ? resumed->early_stop : checkpoint::BestMetric{});
  if (!config_.early_stop) return;
  if (auto file = checkpoint::open_best_weights(trainer.options().resume, *resumed))
    best_.adopt(std::move(file), resumed->files.back().sum);
}

std::optional<EndReason> TrainingPolicy::apply(const EvalResult& result) {
  const WatchVerdict verdict = watch_.see(result);
  if (verdict.keep) best_.keep("best.safetensors");
  Progress& progress = trainer_.progress();
  // Also at the end, for a checkpoint that goes on with more patience.
  if (verdict.cut) {
    LearningRates& rates = trainer_.model().rates();
    rates.set_scale(watch_.next_scale(rates.scale(), trainer_.config().optimizer.schedule.base));
    progress.line(fmt::format("{} is not better than {:.6f}: learning rates times {:g} from now on",
                              config_.plateau->watch.monitor, watch_.plateau().value,
                              rates.scale()));
  }
  if (verdict.stop)
    progress.line(fmt::format("{} has not been better than {:.6f} for {} evaluations: the end",
                              config_.early_stop->monitor, watch_.early_stop().value,
                              watch_.early_stop().waited));
  const auto& target = trainer_.config().solver.auc_target;
  if (target && result.auc && *result.auc >= *target) {
    progress.line(fmt::format("the target AUC of {} is reached", *target));
    return EndReason::kTarget;
  }
  return verdict.stop ? std::optional(EndReason::kEarlyStop) : std::nullopt;
}

bool TrainingPolicy::stopped_early() const {
  return config_.early_stop && watch_.early_stop().waited >= config_.early_stop->patience;
}

void TrainingPolicy::use_best(bool for_good) {
  if (!config_.early_stop || !best_.file() || best_in_use_) return;
  if (!for_good) {
    last_.keep("last.safetensors");
    if (trainer_.outputs()) remove_path(last_.file()->name());  // it stays open
  }
  best_.load();
  best_in_use_ = true;
  trainer_.progress().line(
      fmt::format("the best weights are back, of an evaluation with {} {:.6f}: {}",
                  config_.early_stop->monitor, watch_.early_stop().value, best_.file()->name()));
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

void TrainingPolicy::save_by(void (Trainer::*writes)(const std::string&, const PolicyState&),
                             const std::string& directory) {
  const bool best = best_in_use_;
  use_last();
  (trainer_.*writes)(directory, {.plateau = watch_.plateau(),
                                 .early_stop = watch_.early_stop(),
                                 .best_weights = best_.file()});
  if (best) use_best(/*for_good=*/false);
}

}  // namespace hlite::trainer
