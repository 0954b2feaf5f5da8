#include "hugectr_lite/ops/group_metrics.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/metrics.h"

namespace hlite::ops {
namespace {

// Returns the gain of a positive at place 0, 1, ...
double discount(int64_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

double sum_of_discounts(int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t place = begin; place < end; ++place) sum += discount(place);
  return sum;
}

// The chance that none of the `positives` is among the first `places` of `samples` in any order.
double chance_of_none(int64_t samples, int64_t positives, int64_t places) {
  double chance = 1;
  for (int64_t place = 0; place < places; ++place)
    chance *= static_cast<double>(std::max<int64_t>(samples - positives - place, 0)) /
              static_cast<double>(samples - place);
  return chance;
}

}  // namespace

std::optional<double> calibration(std::span<const float> logits, std::span<const float> labels,
                                  std::span<const float> weights) {
  HLITE_CHECK(logits.size() == labels.size(), "{} logits, {} labels", logits.size(), labels.size());
  HLITE_CHECK(weights.empty() || weights.size() == logits.size(), "{} logits, {} weights",
              logits.size(), weights.size());
  double predicted = 0, found = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[i]);
    predicted += weight / (1 + std::exp(-static_cast<double>(logits[i])));
    found += weight * static_cast<double>(labels[i]);
  }
  if (found == 0) return std::nullopt;
  return predicted / found;
}

GroupRanking::GroupRanking(std::span<const float> scores, std::span<const float> labels,
                           std::span<const uint32_t> groups) {
  HLITE_CHECK(scores.size() == labels.size() && scores.size() == groups.size(),
              "{} scores, {} labels, {} groups", scores.size(), labels.size(), groups.size());
  struct ScoredRow {
    uint64_t order;  // group, then score, highest first
    bool positive;
  };
  std::vector<ScoredRow> rows(scores.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i])) raise<DataError>("the score of evaluation sample {} is NaN", i);
    rows[i] = {uint64_t{groups[i]} << 32 | static_cast<uint32_t>(~ordered_bits(scores[i])),
               labels[i] > 0.5f};
  }
  std::sort(rows.begin(), rows.end(),
            [](const ScoredRow& a, const ScoredRow& b) { return a.order < b.order; });
  for (size_t i = 0; i < rows.size();) {
    const uint64_t order = rows[i].order;
    if (i == 0 || rows[i - 1].order >> 32 != order >> 32)
      groups_.push_back({.first = ties_.size()});
    Tie tie;
    for (; i < rows.size() && rows[i].order == order; ++i) {
      ++tie.samples;
      tie.positives += rows[i].positive ? 1 : 0;
    }
    ties_.push_back(tie);
    Group& group = groups_.back();
    group.end = ties_.size();
    group.samples += tie.samples;
    group.positives += tie.positives;
  }
}

std::optional<double> GroupRanking::group_auc() const {
  double sum = 0, weight = 0;
  for (const Group& group : groups_) {
    const int64_t negatives = group.samples - group.positives;
    if (negatives == 0 || group.positives == 0) continue;
    double won = 0;         // pairs, twice
    int64_t positives = 0;  // of higher scores
    for (size_t t = group.first; t < group.end; ++t) {
      const Tie& tie = ties_[t];
      won += static_cast<double>(tie.samples - tie.positives) *
             static_cast<double>(2 * positives + tie.positives);
      positives += tie.positives;
    }
    const auto n = static_cast<double>(group.samples);
    sum += n * (won / 2 / static_cast<double>(negatives) / static_cast<double>(group.positives));
    weight += n;
  }
  if (weight == 0) return std::nullopt;
  return sum / weight;
}

template <typename Value>
std::optional<double> GroupRanking::mean_with_positives(Value&& value) const {
  double sum = 0, count = 0;
  for (const Group& group : groups_) {
    if (group.positives == 0) continue;
    sum += value(group);
    count += 1;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> GroupRanking::ndcg(int64_t k) const {
  HLITE_CHECK(k >= 1, "NDCG@{}", k);
  return mean_with_positives([&](const Group& group) {
    double gain = 0;
    int64_t place = 0;
    for (size_t t = group.first; t < group.end && place < k; place += ties_[t].samples, ++t)
      gain += static_cast<double>(ties_[t].positives) / static_cast<double>(ties_[t].samples) *
              sum_of_discounts(place, std::min(k, place + ties_[t].samples));
    return gain / sum_of_discounts(0, std::min(k, group.positives));
  });
}

std::optional<double> GroupRanking::hit_rate(int64_t k) const {
  HLITE_CHECK(k >= 1, "HitRate@{}", k);
  return mean_with_positives([&](const Group& group) {
    double none = 1;
    int64_t place = 0;
    for (size_t t = group.first; t < group.end && place < k; place += ties_[t].samples, ++t)
      none *= chance_of_none(ties_[t].samples, ties_[t].positives,
                             std::min(k - place, ties_[t].samples));
    return 1 - none;
  });
}

}  // namespace hlite::ops
