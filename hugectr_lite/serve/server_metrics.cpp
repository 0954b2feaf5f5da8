#include "hugectr_lite/serve/server_metrics.h"

#include <prometheus/text_serializer.h>

namespace hlite::serve {

namespace {

using prometheus::Histogram;

// Half-decades from 10 us to 10 s.
const Histogram::BucketBoundaries kSeconds = {1e-5, 3e-5, 1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3,
                                              1e-2, 2e-2, 5e-2, 0.1,  0.3,  1,    3,    10};
const Histogram::BucketBoundaries kSamples = {1,   2,   4,   8,    16,   32,   64,
                                              128, 256, 512, 1024, 2048, 4096, 8192};

auto& counters(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
auto& gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
auto& histograms(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics()
    : requests_(counters(registry_, "hugectr_lite_requests_total", "Scored requests")),
      samples_(counters(registry_, "hugectr_lite_samples_total", "Scored samples")),
      batches_(counters(registry_, "hugectr_lite_batches_total", "Batches that were scored")),
      unknown_keys_(counters(registry_, "hugectr_lite_unknown_keys_total",
                             "Keys outside of their tables and values without an id")),
      score_sum_(counters(registry_, "hugectr_lite_score_sum",
                          "Sum of all scores: divided by the samples, the mean score")),
      errors_(counters(registry_, "hugectr_lite_errors_total",
                       "Requests that were answered with an error, by status")),
      refused_versions_(counters(registry_, "hugectr_lite_refused_versions_total",
                                 "Versions of a model that could not be loaded")),
      queue_seconds_(histograms(registry_, "hugectr_lite_queue_seconds",
                                "From a request's last byte to the start of its batch")),
      score_seconds_(histograms(registry_, "hugectr_lite_score_seconds",
                                "Scoring of the batch that a request was in")),
      request_seconds_(histograms(registry_, "hugectr_lite_request_seconds",
                                  "From a request's last byte to its scores")),
      batch_samples_(histograms(registry_, "hugectr_lite_batch_samples", "Samples of a batch")),
      version_(gauges(registry_, "hugectr_lite_model_version", "The version that is served")),
      iteration_(gauges(registry_, "hugectr_lite_model_iteration",
                        "Training iterations of the weights that are served")),
      queued_samples_(gauges(registry_, "hugectr_lite_queued_samples", "Samples that wait")),
      connections_(gauges(registry_, "hugectr_lite_connections", "Open connections").Add({})),
      refused_connections_(gauges(registry_, "hugectr_lite_refused_connections",
                                  "Connections beyond --max-connections")
                               .Add({})),
      body_bytes_(gauges(registry_, "hugectr_lite_body_bytes",
                         "Memory of requests' bodies and large answers, of --max-bodies-mb")
                      .Add({})) {}

ModelMetrics Metrics::model(const std::string& name) {
  const prometheus::Labels labels = {{"model", name}};
  return {.requests = requests_.Add(labels),
          .samples = samples_.Add(labels),
          .batches = batches_.Add(labels),
          .unknown_keys = unknown_keys_.Add(labels),
          .queue_seconds = queue_seconds_.Add(labels, kSeconds),
          .score_seconds = score_seconds_.Add(labels, kSeconds),
          .request_seconds = request_seconds_.Add(labels, kSeconds),
          .batch_samples = batch_samples_.Add(labels, kSamples),
          .score_sum = score_sum_.Add(labels),
          .version = version_.Add(labels),
          .iteration = iteration_.Add(labels),
          .queued_samples = queued_samples_.Add(labels)};
}

void Metrics::count_error(int status) {
  errors_.Add({{"status", std::to_string(status)}}).Increment();
}
void Metrics::count_refused_version(const std::string& model) {
  refused_versions_.Add({{"model", model}}).Increment();
}
void Metrics::set_connections(int64_t open, int64_t refused, int64_t body_bytes) {
  connections_.Set(static_cast<double>(open));
  refused_connections_.Set(static_cast<double>(refused));
  body_bytes_.Set(static_cast<double>(body_bytes));
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace hlite::serve
