// The metrics of metrics.h for an evaluation set whose logits and labels lie on a GPU.
//
//   metrics.start(exec, logits, labels);
//   exec.cuda->stream_synchronize(exec.stream);
//   const std::optional<double> area = metrics.auc();
#pragma once

#include <cstdint>
#include <optional>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/trainer/evaluation_sums.h"

namespace hlite::trainer {

class GpuMetrics {
 public:
  static constexpr int64_t kMostSamples = (int64_t{1} << 31) - 1;
  // Takes everything that start() needs for up to max_samples from the device: about
  // 10 bytes a sample.
  GpuMetrics(const Exec& exec, int64_t max_samples);
  // Of that, the bytes.
  [[nodiscard]] int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_.size()); }

  // Asynchronous on exec.stream, deterministic; waits for nothing.
  void start(const Exec& exec, Vector<const float> logits, Vector<const float> labels);

  // What the last start() found out, once its stream has been waited for.
  //
  // The numbers of trainer::auc, to the last bit up to 1.3e8 samples; throws DataError on a NaN.
  [[nodiscard]] std::optional<double> auc() const;
  // trainer::log_loss, summed in another order.
  [[nodiscard]] double log_loss() const;

 private:
  int64_t max_samples_;
  int64_t samples_ = 0;  // of the last start()
  DeviceMemory workspace_;
  PinnedValue<EvaluationSums> sums_;
};

}  // namespace hlite::trainer
