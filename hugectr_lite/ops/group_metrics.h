// Evaluation metrics besides AUC and log loss (metrics.h), over a whole evaluation set:
// calibration, and ranking metrics, which rank the samples of each group (one user or one query)
// separately.
//
// The metrics are exact. Ties count as the average over all orders of the tied samples, so results
// depend neither on the order of samples nor on the number of ranks. A label above 0.5 is positive.
// All sums are in double, over groups in the order of their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hlite::ops {

// Returns the mean of sigmoid(logit) divided by the mean label; 1 if as many positives are
// predicted as observed. `logits`, `labels`: [n]. `weights`: [n] for weighted means, or empty.
// Returns nullopt if the labels sum to 0. Throws Error if sizes differ.
std::optional<double> calibration(std::span<const float> logits, std::span<const float> labels,
                                  std::span<const float> weights = {});

// The samples of an evaluation set, sorted by group and, within a group, by descending score.
class GroupRanking {
 public:
  // All spans are [n]. Samples with the same value in `groups` form a group. Throws Error if sizes
  // differ, DataError if a score is NaN.
  GroupRanking(std::span<const float> scores, std::span<const float> labels,
               std::span<const uint32_t> groups);

  // Grouped AUC: the mean AUC of the groups that have both classes, weighted by their numbers of
  // samples (Zhu et al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017).
  // Returns nullopt if no group has both.
  [[nodiscard]] std::optional<double> group_auc() const;
  // NDCG@k: DCG / ideal DCG of the k samples with the highest scores, averaged over the groups with
  // a positive. A positive at place 1, 2, ... gains 1 / log2(1 + place) (Jarvelin and Kekalainen,
  // "Cumulated gain-based evaluation of IR techniques", TOIS 2002). Returns nullopt if no group has
  // a positive. Throws Error if k < 1.
  [[nodiscard]] std::optional<double> ndcg(int64_t k) const;
  // HitRate@k: share of the groups with a positive that have one among their k highest scores.
  // Returns nullopt if no group has a positive. Throws Error if k < 1.
  [[nodiscard]] std::optional<double> hit_rate(int64_t k) const;

 private:
  // The samples of one group that have the same score.
  struct Tie {
    int64_t samples = 0, positives = 0;
  };
  struct Group {
    size_t first = 0, end = 0;  // its range of ties_, by descending score
    int64_t samples = 0, positives = 0;
  };
  // Averages value(group) over the groups with a positive; nullopt if there are none.
  template <typename Value>
  [[nodiscard]] std::optional<double> mean_with_positives(Value&& value) const;

  std::vector<Tie> ties_;
  std::vector<Group> groups_;
};

}  // namespace hlite::ops
