// Counters of a server, in Prometheus' text format.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace hlite::serve {

// Metrics of one model. References stay valid as long as the Metrics that they are of.
struct ModelMetrics {
  prometheus::Counter &requests, &samples, &batches;
  prometheus::Counter& unknown_keys;  // keys outside of their tables, or values without an id
  prometheus::Histogram &queue_seconds, &score_seconds, &request_seconds;
  prometheus::Histogram& batch_samples;
  prometheus::Counter& score_sum;  // over `samples`: the mean score
  prometheus::Gauge &version, &iteration, &queued_samples;
};

class Metrics {
 public:
  Metrics();

  [[nodiscard]] ModelMetrics model(const std::string& name);
  // Answers with an error, by their status.
  void count_error(int status);
  void set_connections(int64_t open, int64_t refused, int64_t body_bytes);
  // A version of a model that could not be loaded.
  void count_refused_version(const std::string& model);

  [[nodiscard]] std::string text() const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>&requests_, &samples_, &batches_, &unknown_keys_,
      &score_sum_, &errors_, &refused_versions_;
  prometheus::Family<prometheus::Histogram>&queue_seconds_, &score_seconds_, &request_seconds_,
      &batch_samples_;
  prometheus::Family<prometheus::Gauge>&version_, &iteration_, &queued_samples_;
  prometheus::Gauge &connections_, &refused_connections_, &body_bytes_;
};

}  // namespace hlite::serve
