// Metrics of each task of a multi-task model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/metrics/metric.h"
#include "hugectr_lite/trainer/model/model_results.h"

namespace hlite::trainer {

struct TaskResult {
  std::optional<double> auc;       // nullopt if all labels belong to one class
  double loss = 0;                 // mean over the samples that have a label of this task
  int64_t samples = 0;             // number of those samples
  double weight = 0;               // sum of their weights; without weights, their number
  metrics::NamedValues more = {};  // further metrics
};

// Returns the metrics of each task. Logits and labels are [samples, tasks] in row-major order; a
// label below -0.5 is missing.
std::vector<TaskResult> task_metrics(const Exec& exec, const SampleOutputs& outputs, int64_t tasks,
                                     std::span<const metrics::Metric> more = {});

// Returns the sum, added up in double.
double sum_of(std::span<const float> weights);

// Returns the mean of those that exist; nullopt if none does.
std::optional<double> mean_of(std::span<const std::optional<double>> values);
// Returns the training loss (ops/mean_loss.h): the weighted sum over tasks and samples, divided by
// the number of tasks and by `total_weight`. `weights` has a weight per task. `total_weight` is the
// sum of the samples' weights or, without weights, their number; if it is 0, so is the loss.
double weighted_loss(std::span<const TaskResult> tasks, std::span<const float> weights,
                     double total_weight);

}  // namespace hlite::trainer
