#include "hugectr_lite/trainer/evaluation/task_metrics.h"

#include <cmath>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"

namespace hlite::trainer {

TEST_CASE("losses of tasks count by the weights of the samples that have a label") {
  ThreadPool pool(2);
  constexpr size_t kTasks = 2;
  const SampleOutputs outputs = {.logits = {0.5f, -1, 2, 0.25f, -0.5f, 1.5f, -2, 1, 0, -0.75f},
                                 .labels = {1, -1, 0, 1, -1, 0, 1, 1, 0, -1},
                                 .weights = {2, 1, 3, 0.5f, 0},
                                 .groups = {}};
  const auto& [logits, labels, weights, groups] = outputs;
  const std::vector<float> of_tasks = {0.25f, 4};
  std::vector<double> losses(kTasks, 0), sums(kTasks, 0);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const double z = static_cast<double>(logits[i]);
    const double weight = static_cast<double>(weights[i / kTasks]);
    losses[i % kTasks] += weight * std::log1p(std::exp(labels[i] > 0 ? -z : z));
    sums[i % kTasks] += weight;
  }
  const auto results = task_metrics({.pool = &pool}, outputs, static_cast<int64_t>(kTasks));
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

TEST_CASE("further metrics of a task are of its samples that have a label, in their groups") {
  ThreadPool pool(1);
  const SampleOutputs outputs = {.logits = {0.5f, 9, -1, 2, 3, 9, 0.25f, -2},
                                 .labels = {1, -1, 0, 1, 0, -1, 1, 0},
                                 .weights = {},
                                 .groups = {7, 3, 3, 3}};
  const std::vector<metrics::Metric> more = {metrics::find("GAUC").value(),
                                             metrics::find("Calibration").value()};
  const auto results = task_metrics({.pool = &pool}, outputs, 2, more);
  REQUIRE(results[0].more.size() == 2);
  CHECK(results[0].more[0].first == "GAUC");
  CHECK(results[0].more[0].second == 0.5);  // of 3 alone, which has both classes
  CHECK(results[1].more[0].second == 1);
  const auto p = [](double z) { return 1 / (1 + std::exp(-z)); };
  CHECK(results[1].more[1].second.value() == Approx(p(2) + p(-2)));
  CHECK(mean_of(std::vector<std::optional<double>>{0.5, {}, 1}) == 0.75);
  CHECK(!mean_of(std::vector<std::optional<double>>{{}, {}}));
}

}  // namespace hlite::trainer
