// Metrics of a model that predicts values (MSELoss).
#include <cmath>

#include "hugectr_lite/metrics/metric.h"

namespace hlite::metrics {

// The loss is the mean squared error.
Value rmse(const Samples& samples) { return std::sqrt(samples.loss); }

}  // namespace hlite::metrics
