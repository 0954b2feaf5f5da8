#include "hugectr_lite/trainer/run/task_metrics.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/metrics.h"

namespace hlite::trainer {

std::vector<TaskResult> task_metrics(const Exec& exec, std::span<const float> logits,
                                     std::span<const float> labels, int64_t tasks) {
  HLITE_CHECK(tasks >= 1 && logits.size() == labels.size() && std::ssize(logits) % tasks == 0,
              "{} logits, {} labels, {} tasks", logits.size(), labels.size(), tasks);
  std::vector<TaskResult> results;
  std::vector<float> scores, truths;
  for (int64_t t = 0; t < tasks; ++t) {
    scores.clear();
    truths.clear();
    for (size_t i = static_cast<size_t>(t); i < labels.size(); i += static_cast<size_t>(tasks)) {
      if (labels[i] < -0.5f) continue;
      scores.push_back(logits[i]);
      truths.push_back(labels[i]);
    }
    results.push_back({.auc = ops::auc(scores, truths),
                       .loss = ops::log_loss(exec, scores, truths),
                       .samples = std::ssize(truths)});
  }
  return results;
}

std::optional<double> mean_auc(std::span<const TaskResult> tasks) {
  double sum = 0;
  int count = 0;
  for (const TaskResult& t : tasks)
    if (t.auc) {
      sum += *t.auc;
      ++count;
    }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

double weighted_loss(std::span<const TaskResult> tasks, std::span<const float> weights,
                     int64_t samples) {
  if (samples == 0) return 0;
  double sum = 0;
  for (size_t t = 0; t < tasks.size(); ++t)
    sum += static_cast<double>(weights[t]) * tasks[t].loss * static_cast<double>(tasks[t].samples);
  return sum / static_cast<double>(samples) / static_cast<double>(tasks.size());
}

}  // namespace hlite::trainer
