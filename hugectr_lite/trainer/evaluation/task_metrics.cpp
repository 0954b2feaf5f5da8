#include "hugectr_lite/trainer/evaluation/task_metrics.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/metrics.h"

namespace hlite::trainer {

std::vector<TaskResult> task_metrics(const Exec& exec, std::span<const float> logits,
                                     std::span<const float> labels, int64_t tasks,
                                     std::span<const float> weights) {
  HLITE_CHECK(tasks >= 1 && logits.size() == labels.size() && std::ssize(logits) % tasks == 0,
              "{} logits, {} labels, {} tasks", logits.size(), labels.size(), tasks);
  std::vector<TaskResult> results;
  std::vector<float> scores, truths, of_truths;
  for (int64_t t = 0; t < tasks; ++t) {
    scores.clear();
    truths.clear();
    of_truths.clear();
    for (size_t i = static_cast<size_t>(t); i < labels.size(); i += static_cast<size_t>(tasks)) {
      if (labels[i] < -0.5f) continue;
      scores.push_back(logits[i]);
      truths.push_back(labels[i]);
      if (!weights.empty()) of_truths.push_back(weights[i / static_cast<size_t>(tasks)]);
    }
    results.push_back(
        {.auc = ops::auc(scores, truths, of_truths),
         .loss = ops::log_loss(exec, scores, truths, of_truths),
         .samples = std::ssize(truths),
         .weight = weights.empty() ? static_cast<double>(truths.size()) : sum_of(of_truths)});
  }
  return results;
}

double sum_of(std::span<const float> weights) {
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  return sum;
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
                     double total_weight) {
  if (total_weight == 0) return 0;
  double sum = 0;
  for (size_t t = 0; t < tasks.size(); ++t)
    sum += static_cast<double>(weights[t]) * tasks[t].loss * tasks[t].weight;
  return sum / total_weight / static_cast<double>(tasks.size());
}

}  // namespace hlite::trainer
