// Metrics of a model that predicts values (MSELoss).
#include <cmath>

#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {

Value mae(const Samples& samples) {
  double errors = 0, all = 0;
  for (size_t i = 0; i < samples.scores.size(); ++i) {
    errors += samples.weight(i) * std::abs(static_cast<double>(samples.scores[i]) -
                                           static_cast<double>(samples.labels[i]));
    all += samples.weight(i);
  }
  if (all == 0) return std::nullopt;
  return errors / all;
}

// The loss is the mean squared error.
Value rmse(const Samples& samples) { return std::sqrt(samples.loss); }

}  // namespace hlite::metrics
