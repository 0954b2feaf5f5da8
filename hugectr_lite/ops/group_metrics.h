// Evaluation metrics other than AUC and log loss (metrics.h), over a whole evaluation set:
// calibration, and metrics of rankings, a group of samples (those of one user, of one query) at a
// time.
//
// Exact: samples with equal scores count as every order of them would on average, so that results
// depend neither on the order of samples nor on how many ranks scored them. A label above 0.5 is
// positive. All sums are in double, over groups in the order of their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hlite::ops {

// The mean of sigmoid(logit) over the mean of the label: 1 where as many positives are predicted as
// there are. Nothing where there are none. Throws Error when sizes differ. With a weight for each
// sample both are weighted means.
std::optional<double> calibration(std::span<const float> logits, std::span<const float> labels,
                                  std::span<const float> weights = {});

// The samples of a set, ordered by group, in it by score, highest first.
class GroupRanking {
 public:
  // [n] each; two samples are of one group where their `groups` are equal. Throws Error when sizes
  // differ, DataError on a NaN score.
  GroupRanking(std::span<const float> scores, std::span<const float> labels,
               std::span<const uint32_t> groups);

  // Grouped AUC: the AUC of each group that has both classes, weighted by its samples (Zhu et al.,
  // "Optimized Cost per Click in Taobao Display Advertising", KDD 2017). Nothing where no group
  // has.
  [[nodiscard]] std::optional<double> group_auc() const;
  // Mean over groups with a positive of DCG / ideal DCG of the k samples of highest score, with
  // gain 1 / log2(1 + place) for a positive at place 1, 2, ... (Jarvelin and Kekalainen, "Cumulated
  // gain-based evaluation of IR techniques", TOIS 2002). Nothing without such groups. k >= 1.
  [[nodiscard]] std::optional<double> ndcg(int64_t k) const;
  // Share of groups with a positive that have one among their k samples of highest score.
  [[nodiscard]] std::optional<double> hit_rate(int64_t k) const;

 private:
  // Samples of one group and score: `samples` of them, of which `positives`.
  struct Tie {
    int64_t samples = 0, positives = 0;
  };
  struct Group {
    size_t first = 0, end = 0;  // of its ties, by score
    int64_t samples = 0, positives = 0;
  };
  template <typename Value>
  [[nodiscard]] std::optional<double> mean_with_positives(Value&& value) const;

  std::vector<Tie> ties_;
  std::vector<Group> groups_;
};

}  // namespace hlite::ops
