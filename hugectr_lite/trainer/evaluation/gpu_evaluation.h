// GpuEvaluation: scores and labels of an evaluation set, collected on a GPU chunk by chunk, and
// their metrics, whose computation overlaps the device's next work.
//
//   evaluation.begin();
//   for each chunk { model.evaluate(...);  copy_outputs(model, n, evaluation.next(n)); }
//   evaluation.start(model.executor().exec().stream);
//   ...                                  // training goes on
//   evaluation.wait();
//   const std::optional<double> area = evaluation.metrics().auc();
#pragma once

#include <cstdint>
#include <memory>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/trainer/model/model_results.h"

namespace hlite::trainer {

class GpuEvaluation {
 public:
  // Bytes of device memory for a set of that many samples: 8 a sample for scores and labels, and
  // the workspace of GpuMetrics; an estimate for a GPU that is not there (absent_gpu()). Throws
  // DeviceError for more than GpuMetrics::kMaxSamples.
  [[nodiscard]] static int64_t device_bytes(const cuda::Backend& gpu, int64_t samples);
  // Takes them from the current device. Where it lacks them: null, after one warning that says how
  // many are missing.
  [[nodiscard]] static std::unique_ptr<GpuEvaluation> make(const cuda::Backend& gpu,
                                                           int64_t samples);
  // Throws DeviceError.
  GpuEvaluation(const cuda::Backend& gpu, int64_t max_samples);
  ~GpuEvaluation();
  GpuEvaluation(const GpuEvaluation&) = delete;
  GpuEvaluation& operator=(const GpuEvaluation&) = delete;

  // An empty set. REQUIRES that metrics that were started have been waited for.
  void begin();
  // Returns the place of the next n samples.
  [[nodiscard]] OutputsPlace next(int64_t n);
  [[nodiscard]] int64_t samples() const { return samples_; }
  // Issues the metrics of the set on a stream of its own, after all earlier work of the stream
  // `after`, and returns.
  void start(void* after);
  // Waits until they are done.
  void wait();
  // Appends the scores and labels to `to`, once waited for.
  void read(SampleOutputs& to) const;
  // Returns the results of the last start(), once waited for.
  [[nodiscard]] const ops::GpuMetrics& metrics() const { return metrics_; }

 private:
  [[nodiscard]] Exec exec() const {
    return {.device = Device::kCuda, .cuda = &gpu_, .stream = stream_};
  }
  [[nodiscard]] float* scores() const { return reinterpret_cast<float*>(values_.data()); }
  [[nodiscard]] float* labels() const { return scores() + max_samples_; }

  const cuda::Backend& gpu_;
  const int64_t max_samples_;
  DeviceMemory values_;  // all scores, then all labels
  ops::GpuMetrics metrics_;
  void *stream_ = nullptr, *collected_ = nullptr;
  int64_t samples_ = 0;
  bool started_ = false;  // and not waited for
};

}  // namespace hlite::trainer
