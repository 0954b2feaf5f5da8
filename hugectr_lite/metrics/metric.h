// Further metrics of an evaluation set, by their names. AUC and the mean loss (ops/metrics.h) are
// not among them: they are always computed. A new metric is a function in the file of its kind
// (class_metrics.cpp, value_metrics.cpp, group_metrics.cpp) and a line in registry.cpp. By that
// line the config, evaluations on any device, tasks, `predict` and all reports know it.
//
// The sums are in double. Ties count as the average over all orders of the tied samples. Without
// weights, results of classes depend neither on the order of samples nor on the number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/metrics/group_ranking.h"

namespace hlite::metrics {

// The samples that have a label of one task. A label above 0.5 is positive.
struct Samples {
  std::span<const float> scores;  // logits; if the model predicts values, the values
  std::span<const float> labels;
  std::span<const float> weights = {};    // empty: all weights are 1
  std::span<const uint32_t> groups = {};  // empty: metrics of groups do not exist
  double loss = 0;                        // their mean loss
  [[nodiscard]] double weight(size_t i) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[i]);
  }
};
// nullopt if the metric does not exist, for example AUPRC of a set without positives.
using Value = std::optional<double>;
using SampleMetric = Value(const Samples& samples);
using GroupMetric = Value(const GroupRanking& ranking, int64_t k);

enum class Better { kHigher, kLower, kNeither };

// Sets one of of_samples and of_groups.
struct Rule {
  const char* name;        // "GAUC"; "NDCG@k": with a number k >= 1 for k
  const char* about;       // in Markdown, for the reference of config keys
  bool of_values = false;  // for models that predict values (MSELoss); else for those of classes
  Better better = Better::kHigher;
  SampleMetric* of_samples = nullptr;
  GroupMetric* of_groups = nullptr;
};
std::span<const Rule> rules();

// A rule as a config names it, with its k.
struct Metric {
  const Rule* rule = nullptr;
  int64_t k = 0;
  std::string name;  // "NDCG@10"
};
inline bool is_grouped(const Metric& metric) { return metric.rule->of_groups != nullptr; }
// Returns nullopt if no metric has that name.
std::optional<Metric> find(const std::string& name);

using Which = bool (*)(const Rule&);
inline bool any(const Rule&) { return true; }
inline bool grouped(const Rule& rule) { return rule.of_groups != nullptr; }
inline bool of_values(const Rule& rule) { return rule.of_values; }
inline bool watchable(const Rule& rule) { return rule.better != Better::kNeither; }
// "GAUC, NDCG@k or HitRate@k", with `quote` around each and `last` before the last.
std::string names_text(Which which, const char* quote = "\"", const char* last = "or");
// "GAUC|NDCG@[1-9][0-9]*": a regular expression of the names.
std::string names_pattern(Which which);

using NamedValues = std::vector<std::pair<std::string, Value>>;
// Computes the metrics, in the order of `wanted`. Throws Error if sizes differ, DataError if a
// metric sorts by score and a score is NaN.
NamedValues take(std::span<const Metric> wanted, const Samples& samples);

}  // namespace hlite::metrics
