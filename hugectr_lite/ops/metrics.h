// Evaluation metrics over a whole evaluation set: exact AUC, and log loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hugectr_lite/core/device_memory.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Exact area under the ROC curve: the share of (positive, negative) pairs in which the positive has
// the higher score, ties counting half. A label above 0.5 is positive. Nothing when one of the two
// classes is absent. Throws Error when sizes differ, DataError on a NaN score.
//
// With a weight >= 0 for each sample, a pair counts as much as the product of its two weights; a
// class whose weights are all 0 is absent. At most 2^31 samples then.
std::optional<double> auc(std::span<const float> scores, std::span<const float> labels,
                          std::span<const float> weights = {});
// The same of doubles, without a limit on samples: two scores are a tie only if they are equal.
std::optional<double> auc(std::span<const double> scores, std::span<const double> labels,
                          std::span<const double> weights = {});

// Mean binary cross-entropy of logits, summed in double in a fixed order. 0 for no samples. With
// weights: the sum of weighted losses over the sum of the weights, 0 if that is 0.
double log_loss(const Exec& exec, std::span<const float> logits, std::span<const float> labels,
                std::span<const float> weights = {});
// Mean squared error, summed and weighted likewise.
double mean_squared_error(const Exec& exec, std::span<const float> values,
                          std::span<const float> labels, std::span<const float> weights = {});

// Unsigned integers in the order of the floats; both zeros map to the same one.
HLITE_HD inline uint32_t ordered_bits(float x) {
  const uint32_t bits = hlite::detail::bits_of(x == 0 ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Sums that the metrics of a set on a GPU are made of.
struct EvaluationSums {
  unsigned long long positives = 0;
  // Twice the (positive, negative) pairs in which the positive has the higher score;
  // ties count one.
  unsigned long long won_twice = 0;
  // Complement of the index of the first score that is NaN; 0: there is none.
  unsigned long long first_nan = 0;
  double loss = 0;  // binary cross-entropy, summed
};

namespace kernels {
// Bytes of device memory for up to max_samples samples: about 10 a sample. An error for 2^31
// samples and more.
inline const Kernel<size_t(int64_t /*max_samples*/)> evaluation_workspace{"evaluation_workspace"};
// The sums are in page-locked host memory, written by a copy on the stream.
inline const Kernel<void(Vector<const float> /*logits*/, Vector<const float> /*labels*/,
                         std::byte* /*workspace*/, size_t /*workspace_bytes*/, EvaluationSums*)>
    evaluate{"evaluate"};
}  // namespace kernels

// The same for a set whose logits and labels lie on a GPU.
//
//   metrics.start(exec, logits, labels);
//   exec.cuda->stream_synchronize(exec.stream);
//   const std::optional<double> area = metrics.auc();
class GpuMetrics {
 public:
  static constexpr int64_t kMaxSamples = (int64_t{1} << 31) - 1;
  // Takes everything that start() needs for up to max_samples from the device: about
  // 10 bytes a sample.
  GpuMetrics(const Exec& exec, int64_t max_samples);
  // The bytes of that.
  [[nodiscard]] int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_.size()); }

  // Asynchronous on exec.stream, deterministic; waits for nothing.
  void start(const Exec& exec, Vector<const float> logits, Vector<const float> labels);

  // The results of the last start(). REQUIRES that its stream has been synchronized.
  //
  // The numbers of auc(), to the last bit up to 1.3e8 samples; throws DataError on a NaN.
  [[nodiscard]] std::optional<double> auc() const;
  // log_loss(), summed in another order.
  [[nodiscard]] double log_loss() const;

 private:
  int64_t max_samples_;
  int64_t samples_ = 0;  // of the last start()
  DeviceMemory workspace_;
  PinnedValue<EvaluationSums> sums_;
};

}  // namespace hlite::ops
