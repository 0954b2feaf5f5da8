// Metrics of a model of several tasks, task by task.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hugectr_lite/core/exec.h"

namespace hlite::trainer {

struct TaskResult {
  std::optional<double> auc;  // nothing where its labels are of one class only
  double loss = 0;            // mean over its samples
  int64_t samples = 0;        // that have its label
  double weight = 0;          // their sum of weights; without weights, their number
};

// logits and labels [samples, tasks], a sample after the other; a label below -0.5 is absent.
// weights: of samples, or none.
std::vector<TaskResult> task_metrics(const Exec& exec, std::span<const float> logits,
                                     std::span<const float> labels, int64_t tasks,
                                     std::span<const float> weights = {});

double sum_of(std::span<const float> weights);

// Their mean; nothing where no task has any.
std::optional<double> mean_auc(std::span<const TaskResult> tasks);
// The training loss (ops/mean_loss.h) of samples with this sum of weights; without weights, their
// number. The sum over tasks and samples is divided by it.
double weighted_loss(std::span<const TaskResult> tasks, std::span<const float> weights,
                     double of_samples);

}  // namespace hlite::trainer
