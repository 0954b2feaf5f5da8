// Metrics that rank the samples of each group separately. Sums go over groups in the order of their
// keys.
#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {
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

// Averages value(group) over the groups with a positive; nothing if there are none.
template <typename Of>
Value mean_with_positives(const GroupRanking& ranking, Of&& value) {
  double sum = 0, count = 0;
  for (const GroupRanking::Group& group : ranking.groups) {
    if (group.positives == 0) continue;
    sum += value(group);
    count += 1;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace

GroupRanking::GroupRanking(std::span<const float> scores, std::span<const float> labels,
                           std::span<const uint32_t> of_samples) {
  struct Row {
    uint32_t group;
    float score;
    bool positive;
    [[nodiscard]] bool ties(const Row& other) const {
      return group == other.group && score == other.score;
    }
  };
  std::vector<Row> rows(scores.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::isnan(scores[i])) raise<DataError>("the score of evaluation sample {} is NaN", i);
    rows[i] = {of_samples[i], scores[i], labels[i] > 0.5f};
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.group != b.group ? a.group < b.group : a.score > b.score;
  });
  for (size_t i = 0; i < rows.size();) {
    const Row row = rows[i];
    if (i == 0 || rows[i - 1].group != row.group) groups.push_back({.first = ties.size()});
    Tie tie;
    for (; i < rows.size() && rows[i].ties(row); ++i) {
      ++tie.samples;
      tie.positives += rows[i].positive ? 1 : 0;
    }
    ties.push_back(tie);
    Group& group = groups.back();
    group.end = ties.size();
    group.samples += tie.samples;
    group.positives += tie.positives;
  }
}

// The mean AUC of the groups that have both classes, weighted by their numbers of samples (Zhu et
// al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017).
Value group_auc(const GroupRanking& ranking, int64_t) {
  double sum = 0, weight = 0;
  for (const GroupRanking::Group& group : ranking.groups) {
    const int64_t negatives = group.samples - group.positives;
    if (negatives == 0 || group.positives == 0) continue;
    double won = 0;         // pairs, twice
    int64_t positives = 0;  // of higher scores
    for (size_t t = group.first; t < group.end; ++t) {
      const GroupRanking::Tie& tie = ranking.ties[t];
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

// DCG / ideal DCG of the k samples with the highest scores, averaged over the groups with a
// positive. A positive at place 1, 2, ... gains 1 / log2(1 + place) (Jarvelin and Kekalainen,
// "Cumulated gain-based evaluation of IR techniques", TOIS 2002).
Value ndcg(const GroupRanking& ranking, int64_t k) {
  return mean_with_positives(ranking, [&](const GroupRanking::Group& group) {
    double gain = 0;
    int64_t place = 0;
    for (size_t t = group.first; t < group.end && place < k; place += ranking.ties[t].samples, ++t)
      gain += static_cast<double>(ranking.ties[t].positives) /
              static_cast<double>(ranking.ties[t].samples) *
              sum_of_discounts(place, std::min(k, place + ranking.ties[t].samples));
    return gain / sum_of_discounts(0, std::min(k, group.positives));
  });
}

// Share of the groups with a positive that have one among their k highest scores.
Value hit_rate(const GroupRanking& ranking, int64_t k) {
  return mean_with_positives(ranking, [&](const GroupRanking::Group& group) {
    double none = 1;
    int64_t place = 0;
    for (size_t t = group.first; t < group.end && place < k; place += ranking.ties[t].samples, ++t)
      none *= chance_of_none(ranking.ties[t].samples, ranking.ties[t].positives,
                             std::min(k - place, ranking.ties[t].samples));
    return 1 - none;
  });
}

}  // namespace hlite::metrics
