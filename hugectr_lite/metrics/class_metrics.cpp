// Metrics of a model of two classes, whose scores are logits.
#include <cmath>

#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {

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

}  // namespace hlite::metrics
