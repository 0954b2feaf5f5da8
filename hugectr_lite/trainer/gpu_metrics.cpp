#include "hugectr_lite/trainer/gpu_metrics.h"

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {

GpuMetrics::GpuMetrics(const Exec& exec, int64_t max_samples)
    : max_samples_(max_samples),
      workspace_(*exec.cuda, kernels::evaluation_workspace(exec, max_samples)),
      sums_(*exec.cuda) {}

void GpuMetrics::start(const Exec& exec, Vector<const float> logits, Vector<const float> labels) {
  HLITE_CHECK(exec.on_gpu(), "metrics of a GPU need one");
  HLITE_CHECK(logits.dim(0) == labels.dim(0) && logits.dim(0) <= max_samples_,
              "{} scores, {} labels, expected at most {}", logits.dim(0), labels.dim(0),
              max_samples_);
  samples_ = logits.dim(0);
  kernels::evaluate(exec, logits, labels, workspace_.data(), workspace_.size(), sums_.get());
}

std::optional<double> GpuMetrics::auc() const {
  if (sums_->first_nan != 0)
    raise<DataError>("AUC: the score of evaluation sample {} is NaN", ~sums_->first_nan);
  const auto positives = static_cast<double>(sums_->positives);
  const double negatives = static_cast<double>(samples_) - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  return static_cast<double>(sums_->won_twice) / 2 / negatives / positives;
}

double GpuMetrics::log_loss() const {
  return samples_ == 0 ? 0 : sums_->loss / static_cast<double>(samples_);
}

}  // namespace hlite::trainer
