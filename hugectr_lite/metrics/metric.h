// Metrics of an evaluation set by their names, besides AUC and the mean loss (ops/metrics.h), which
// are always taken. A new one is a function in the file of its kind (class_metrics.cpp,
// value_metrics.cpp, group_metrics.cpp) and a line in registry.cpp: the config, evaluations on any
// device, tasks, `predict` and all reports know it by that line.
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

// What a metric is taken of: samples that have a label of a task. A label above 0.5 is positive.
struct Samples {
  std::span<const float> scores;  // logits, or of a model that predicts values those
  std::span<const float> labels;
  std::span<const float> weights = {};    // empty: samples count alike
  std::span<const uint32_t> groups = {};  // empty: metrics of groups do not exist
  double loss = 0;                        // their mean loss
  [[nodiscard]] double weight(size_t i) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[i]);
  }
};
// Nothing where a metric does not exist, as one of both classes where the set has one.
using Value = std::optional<double>;
using SampleMetric = Value(const Samples& samples);
using GroupMetric = Value(const GroupRanking& ranking, int64_t k);

enum class Better { kHigher, kLower, kNeither };

// A metric is of groups, or of samples.
struct Rule {
  const char* name;        // "GAUC"; "NDCG@k": with a number k >= 1 for k
  const char* about;       // in Markdown, for the reference of config keys
  bool of_values = false;  // of a model that predicts values; else of one of classes
  Better better = Better::kHigher;
  SampleMetric* of_samples = nullptr;
  GroupMetric* of_groups = nullptr;
};
std::span<const Rule> rules();

// A metric of a config.
struct Metric {
  const Rule* rule = nullptr;
  int64_t k = 0;
  std::string name;  // "NDCG@10"
};
inline bool is_grouped(const Metric& metric) { return metric.rule->of_groups != nullptr; }
// Nothing for a name that is none.
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
// The metrics by their names, in their order. Throws Error if sizes differ, DataError on a NaN that
// has no place in an order.
NamedValues take(std::span<const Metric> wanted, const Samples& samples);

}  // namespace hlite::metrics
