#include "hugectr_lite/trainer/evaluation/task_metrics.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/metrics.h"

namespace hlite::trainer {

std::vector<TaskResult> task_metrics(const Exec& exec, const SampleOutputs& outputs, int64_t tasks,
                                     std::span<const metrics::Metric> more) {
  const auto& [logits, labels, weights, groups] = outputs;
  HLITE_CHECK(tasks >= 1 && logits.size() == labels.size() && std::ssize(logits) % tasks == 0,
              "{} logits, {} labels, {} tasks", logits.size(), labels.size(), tasks);
  std::vector<TaskResult> results;
  SampleOutputs of;
  for (int64_t t = 0; t < tasks; ++t) {
    of.clear();
    for (size_t i = static_cast<size_t>(t); i < labels.size(); i += static_cast<size_t>(tasks)) {
      if (labels[i] < -0.5f) continue;
      const size_t sample = i / static_cast<size_t>(tasks);
      of.logits.push_back(logits[i]);
      of.labels.push_back(labels[i]);
      if (!weights.empty()) of.weights.push_back(weights[sample]);
      if (!groups.empty()) of.groups.push_back(groups[sample]);
    }
    const double loss = ops::log_loss(exec, of.logits, of.labels, of.weights);
    results.push_back(
        {.auc = ops::auc(of.logits, of.labels, of.weights),
         .loss = loss,
         .samples = std::ssize(of.labels),
         .weight = weights.empty() ? static_cast<double>(of.labels.size()) : sum_of(of.weights),
         .more = metrics::take(more, {of.logits, of.labels, of.weights, of.groups, loss})});
  }
  return results;
}

double sum_of(std::span<const float> weights) {
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  return sum;
}

std::optional<double> mean_of(std::span<const std::optional<double>> values) {
  double sum = 0;
  int count = 0;
  for (const auto& value : values)
    if (value) {
      sum += *value;
      ++count;
    }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

double weighted_loss(std::span<const TaskResult> tasks, std::span<const float> weights,
                     double total_weight) {
  if (total_weight == 0) return 0;
  double sum = 0;
  for (size_t t = 0; t < tasks.size(); ++t)
    sum += static_cast<double>(weights[t]) * tasks[t].loss * tasks[t].weight;
  return sum / total_weight / static_cast<double>(tasks.size());
}

}  // namespace hlite::trainer
