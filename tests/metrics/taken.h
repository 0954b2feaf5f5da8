// A metric by its name.
#pragma once

#include "hugectr_lite/metrics/metric.h"

namespace hlite::test {

inline metrics::Value taken(const std::string& name, const metrics::Samples& samples) {
  const metrics::Metric metric = metrics::find(name).value();
  return metrics::take({&metric, 1}, samples).front().second;
}

}  // namespace hlite::test
