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
};

// logits and labels [samples, tasks], a sample after the other; a label below -0.5 is absent.
std::vector<TaskResult> task_metrics(const Exec& exec, std::span<const float> logits,
                                     std::span<const float> labels, int64_t tasks);

// Their mean; nothing where no task has any.
std::optional<double> mean_auc(std::span<const TaskResult> tasks);
// The training loss of `samples` samples (ops/bce_loss.h).
double weighted_loss(std::span<const TaskResult> tasks, std::span<const float> weights,
                     int64_t samples);

}  // namespace hlite::trainer
