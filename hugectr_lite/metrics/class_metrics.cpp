// Metrics of a model of two classes, whose scores are logits.
#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {

// The average of the precision at each threshold, weighted by the recall that it adds; tied scores
// are one threshold.
Value auprc(const Samples& samples) {
  struct Row {
    float score;
    bool positive;
    double weight;
  };
  std::vector<Row> rows(samples.scores.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {samples.scores[i], samples.labels[i] > 0.5f, samples.weight(i)};
    if (std::isnan(rows[i].score)) raise<DataError>("the score of evaluation sample {} is NaN", i);
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.score > b.score; });
  double sum = 0, positives = 0, all = 0;  // so far
  for (size_t i = 0; i < rows.size();) {
    double tied = 0;
    const float score = rows[i].score;
    for (; i < rows.size() && rows[i].score == score; ++i) {
      tied += rows[i].positive ? rows[i].weight : 0;
      all += rows[i].weight;
    }
    positives += tied;
    if (tied > 0) sum += tied * positives / all;
  }
  if (positives == 0) return std::nullopt;
  return sum / positives;
}

// The mean of sigmoid(logit) divided by the mean label: 1 if as many positives are predicted as
// observed.
Value calibration(const Samples& samples) {
  double predicted = 0, found = 0;
  for (size_t i = 0; i < samples.scores.size(); ++i) {
    predicted += samples.weight(i) / (1 + std::exp(-static_cast<double>(samples.scores[i])));
    found += samples.weight(i) * static_cast<double>(samples.labels[i]);
  }
  if (found == 0) return std::nullopt;
  return predicted / found;
}

// The loss over that of the mean label as every prediction (He et al., "Practical Lessons from
// Predicting Clicks on Ads at Facebook", ADKDD 2014).
Value normalized_entropy(const Samples& samples) {
  double positives = 0, all = 0;
  for (size_t i = 0; i < samples.labels.size(); ++i) {
    positives += samples.weight(i) * static_cast<double>(samples.labels[i]);
    all += samples.weight(i);
  }
  const double p = positives / all;
  if (!(p > 0 && p < 1)) return std::nullopt;
  return -samples.loss / (p * std::log(p) + (1 - p) * std::log(1 - p));
}

}  // namespace hlite::metrics
