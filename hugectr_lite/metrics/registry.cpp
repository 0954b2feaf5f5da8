#include <algorithm>
#include <string_view>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {

SampleMetric auprc, calibration, mae, normalized_entropy, rmse;
GroupMetric group_auc, hit_rate, ndcg;

std::span<const Rule> rules() {
  static constexpr Rule kRules[] = {
      {.name = "AUPRC", .about = "average precision", .of_samples = auprc},
      {.name = "Calibration",
       .about = "mean prediction over mean label",
       .better = Better::kNeither,
       .of_samples = calibration},
      {.name = "NormalizedEntropy",
       .about = "`AverageLoss` over the loss of the mean label as every prediction",
       .better = Better::kLower,
       .of_samples = normalized_entropy},
      {.name = "MAE",
       .about = "with `MSELoss`: the mean absolute error",
       .of_values = true,
       .better = Better::kLower,
       .of_samples = mae},
      {.name = "RMSE",
       .about = "with `MSELoss`, where it is always taken: the root of the mean squared error",
       .of_values = true,
       .better = Better::kLower,
       .of_samples = rmse},
      {.name = "GAUC",
       .about = "AUC of each group, weighted by its samples",
       .of_groups = group_auc},
      {.name = "NDCG@k", .about = "DCG of the k best over its ideal", .of_groups = ndcg},
      {.name = "HitRate@k",
       .about = "share of groups with a positive sample among the k best",
       .of_groups = hit_rate},
  };
  return kRules;
}

std::optional<Metric> find(const std::string& name) {
  const size_t at = name.find('@');
  const bool has_k = at != std::string::npos;
  const auto k = has_k ? parse_number<int64_t>(std::string_view(name).substr(at + 1))
                       : std::optional<int64_t>(0);
  if (!k || (has_k && *k < 1)) return std::nullopt;
  for (const Rule& rule : rules())
    if (name.substr(0, at) + (has_k ? "@k" : "") == rule.name) return Metric{&rule, *k, name};
  return std::nullopt;
}

std::string names_text(Which which, const char* quote, const char* last) {
  std::vector<std::string> names;
  for (const Rule& rule : rules())
    if (which(rule)) names.push_back(fmt::format("{0}{1}{0}", quote, rule.name));
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i)
    text += (i + 1 < names.size() ? ", " : fmt::format(" {} ", last)) + names[i];
  return text;
}

std::string names_pattern(Which which) {
  std::string pattern;
  for (const Rule& rule : rules()) {
    if (!which(rule)) continue;
    std::string name = rule.name;
    if (name.ends_with("@k")) name.replace(name.size() - 1, 1, "[1-9][0-9]*");
    pattern += (pattern.empty() ? "" : "|") + name;
  }
  return pattern;
}

NamedValues take(std::span<const Metric> wanted, const Samples& samples) {
  const auto& [scores, labels, weights, groups, loss] = samples;
  HLITE_CHECK(scores.size() == labels.size() &&
                  (weights.empty() || weights.size() == scores.size()) &&
                  (groups.empty() || groups.size() == scores.size()),
              "{} scores, {} labels, {} weights, {} groups", scores.size(), labels.size(),
              weights.size(), groups.size());
  std::optional<GroupRanking> ranking;
  if (std::any_of(wanted.begin(), wanted.end(), is_grouped) && !groups.empty())
    ranking.emplace(scores, labels, groups);
  NamedValues values;
  for (const Metric& metric : wanted) {
    Value value;
    if (metric.rule->of_samples)
      value = metric.rule->of_samples(samples);
    else if (ranking)
      value = metric.rule->of_groups(*ranking, metric.k);
    values.emplace_back(metric.name, value);
  }
  return values;
}

}  // namespace hlite::metrics
