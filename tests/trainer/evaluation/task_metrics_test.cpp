#include "hugectr_lite/trainer/evaluation/task_metrics.h"

#include <cmath>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"

namespace hlite::trainer {

TEST_CASE("losses of tasks count by the weights of the samples that have a label") {
  ThreadPool pool(2);
  constexpr size_t kTasks = 2;
  const std::vector<float> logits = {0.5f, -1, 2, 0.25f, -0.5f, 1.5f, -2, 1, 0, -0.75f},
                           labels = {1, -1, 0, 1, -1, 0, 1, 1, 0, -1}, weights = {2, 1, 3, 0.5f, 0},
                           of_tasks = {0.25f, 4};
  std::vector<double> losses(kTasks, 0), sums(kTasks, 0);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const double z = static_cast<double>(logits[i]);
    const double weight = static_cast<double>(weights[i / kTasks]);
    losses[i % kTasks] += weight * std::log1p(std::exp(labels[i] > 0 ? -z : z));
    sums[i % kTasks] += weight;
  }
  const auto results =
      task_metrics({.pool = &pool}, logits, labels, static_cast<int64_t>(kTasks), weights);
  REQUIRE(results.size() == kTasks);
  double want = 0;
  for (size_t t = 0; t < kTasks; ++t) {
    CHECK(results[t].weight == sums[t]);
    CHECK(results[t].loss == Approx(losses[t] / sums[t]).epsilon(1e-6));
    want += static_cast<double>(of_tasks[t]) * losses[t];
  }
  CHECK(results[0].samples == 4);
  CHECK(results[1].samples == 3);
  const double all = sum_of(weights);
  CHECK(weighted_loss(results, of_tasks, all) == Approx(want / all / kTasks).epsilon(1e-6));
}

}  // namespace hlite::trainer
