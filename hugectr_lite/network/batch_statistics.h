// The common part of layers that normalize columns over the batch of all ranks: BatchNorm and
// PReLU_Dice. Training uses the batch's mean and variance. Evaluation uses running ones, which
// begin with 0 and 1 and follow the batches.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/network/shared_steps.h"
#include "hugectr_lite/network/typed_step.h"
#include "hugectr_lite/ops/batch_norm.h"

namespace hlite::network {

// Statistics of a layer on [B,n], or [m B,n]; trivially copied into its steps.
class BatchStatistics {
 public:
  BatchStatistics(const LayerIo& io, double epsilon);

  // Asks in infer() for what the layer needs: `n` columns.
  static void ask_for(LayerShape& shape, int64_t n);

  // The sums of this batch, in training; before the layer's own forward step.
  void emit_sums(plan::Plan& plan, const LayerIo& io, const std::string& layer, Phase phase) const;
  // Buffers that this step reads and writes, for make().
  [[nodiscard]] std::vector<BufferId> sources(Phase phase) const;
  [[nodiscard]] BufferId fixed() const { return fixed_; }
  // The buffers of the layer's backward sums, which gradient_sums() writes, and of what its last
  // step reads, once emit_gradient_gather() was between them.
  [[nodiscard]] BufferId gradient_sums() const { return gradient_sums_.mine; }
  [[nodiscard]] BufferId all_gradient_sums() const { return gradient_sums_.all; }
  [[nodiscard]] BufferId workspace() const { return workspace_; }
  void emit_gradient_gather(plan::Plan& plan, const LayerIo& io, const std::string& layer) const;
  // running <- (1 - factor) running + factor batch's. To be called by emit_after_backward(), not
  // with the forward pass: an exchange that did not fit is known by then at the latest.
  void emit_running(plan::Plan& plan, const LayerIo& io, const std::string& layer,
                    double factor) const;

  // The functions below are for steps. Returns this rank's rows of a buffer, [v.batch * m, n].
  template <typename T>
  [[nodiscard]] Matrix<T> rows(const StepViews<T>& v, BufferId id) const {
    return matrix<T>(v.buffers, id, v.batch * sample_rows_, n_);
  }
  template <typename T>
  [[nodiscard]] Vector<float> column(const StepViews<T>& v, BufferId id) const {
    return vector(v.buffers, id, n_);
  }
  template <typename T>
  [[nodiscard]] Vector<double> parts(const StepViews<T>& v) const {
    return vector<double>(v.buffers, workspace_, ops::terms_workspace(n_));
  }
  template <typename T>
  [[nodiscard]] Matrix<double> gradient_sums(const StepViews<T>& v) const {
    return matrix<double>(v.buffers, gradient_sums_.mine, 2, n_);
  }
  template <typename T>
  [[nodiscard]] ops::ColumnStatistics get(const StepViews<T>& v) const {
    return {v.buffers.template data<float>(fixed_), n_};
  }
  // Computes the statistics that normalize: the batch's in training, the running ones otherwise.
  template <typename T>
  [[nodiscard]] ops::ColumnStatistics make(const StepViews<T>& v, Phase phase) const {
    const ops::ColumnStatistics made = get(v);
    if (phase == Phase::kTrain)
      ops::batch_norm_statistics(v.exec, all(v, sums_), batch_rows(v), epsilon_, made);
    else
      ops::running_statistics(v.exec, running(v), epsilon_, made);
    return made;
  }
  // Adds the means of the gradients of all ranks to the statistics.
  template <typename T>
  [[nodiscard]] ops::ColumnStatistics with_gradient_means(const StepViews<T>& v) const {
    const ops::ColumnStatistics made = get(v);
    ops::batch_norm_gradient_means(v.exec, all(v, gradient_sums_), batch_rows(v), made);
    return made;
  }

 private:
  // The sums of all ranks, [ranks, 2, n].
  template <typename T>
  [[nodiscard]] View<double, 3> all(const StepViews<T>& v, const RankSums& of) const {
    return {v.buffers.template data<double>(of.all), ranks_, 2, n_};
  }
  // Number of rows over which statistics are taken: those of all ranks.
  template <typename T>
  [[nodiscard]] int64_t batch_rows(const StepViews<T>& v) const {
    return v.context.mean_over() * sample_rows_;
  }
  template <typename T>
  [[nodiscard]] ops::RunningStatistics running(const StepViews<T>& v) const {
    return {column(v, mean_), column(v, variance_)};
  }

  BufferId x_, fixed_, mean_, variance_, workspace_;  // mean and variance: the running ones
  RankSums sums_, gradient_sums_;
  int64_t sample_rows_, n_, ranks_;
  double epsilon_;
};

}  // namespace hlite::network
