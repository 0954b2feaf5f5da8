#include "hugectr_lite/trainer/run/metric_watch.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

// Returns true if it is better than the best so far, which it then becomes.
bool improves(const config::WatchConfig& watch, const EvalResult& result, int64_t iteration,
              checkpoint::BestMetric& best) {
  const auto metric = metric_value(result, watch.monitor);
  if (!metric && best.any && !best.of_loss) return false;  // it says nothing of one that existed
  const bool of_loss = !metric;
  const double value = metric.value_or(result.loss);
  const bool first = !best.any || best.of_loss != of_loss;
  const bool better = first || (watch.rises() && !of_loss ? value >= best.value + watch.min_delta
                                                          : value <= best.value - watch.min_delta);
  if (better)
    best = {.any = true, .value = value, .of_loss = of_loss, .iteration = iteration};
  else
    ++best.waited;
  return better;
}

}  // namespace

std::optional<double> metric_value(const EvalResult& result, const std::string& name) {
  if (name == config::kAuc) return result.auc;
  if (name == config::kAverageLoss) return result.loss;
  if (name == config::kAucMinusLoss)
    return result.auc ? std::optional(*result.auc - result.loss) : std::nullopt;
  for (const auto& [of, value] : result.more)
    if (of == name) return value;
  raise("no metric {} was taken", name);
}

WatchVerdict MetricWatch::see(const EvalResult& result, int64_t iteration) {
  WatchVerdict verdict;
  if (config_.plateau) {
    const config::WatchConfig& watch = config_.plateau->watch;
    improves(watch, result, iteration, plateau_);
    verdict.cut = plateau_.waited >= watch.patience;
    if (verdict.cut) plateau_.waited = 0;
  }
  if (config_.early_stop) {
    verdict.keep = improves(*config_.early_stop, result, iteration, early_stop_);
    verdict.stop = early_stop_.waited >= config_.early_stop->patience;
  }
  verdict.by_loss =
      (config_.plateau && plateau_.of_loss) || (config_.early_stop && early_stop_.of_loss);
  return verdict;
}

std::string MetricWatch::watched(const config::WatchConfig& watch,
                                 const checkpoint::BestMetric& best) {
  return best.of_loss ? config::kAverageLoss : watch.monitor;
}

float MetricWatch::next_scale(float scale, double base) const {
  HLITE_CHECK(config_.plateau.has_value(), "no plateau is looked for");
  const double cut = static_cast<double>(scale) * config_.plateau->factor;
  const double least = base > 0 ? config_.plateau->min_lr / base : 0;
  return std::min(scale, static_cast<float>(std::max(cut, least)));
}

void MetricWatch::restore(const checkpoint::BestMetric& plateau,
                          const checkpoint::BestMetric& early_stop) {
  plateau_ = plateau;
  early_stop_ = early_stop;
}

}  // namespace hlite::trainer
