// LearningRates: the number of the iteration, and the learning rates that go by it.
#pragma once

#include <memory>
#include <vector>

#include "embedding/embedding_layer.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

class LearningRates {
 public:
  // Has the rates of the dense network by `optimizer`, and of each embedding layer by its own.
  LearningRates(const config::OptimizerConfig& optimizer,
                const std::vector<std::unique_ptr<embedding::EmbeddingLayer>>& embeddings);

  // `keys_ahead`: keys are routed in a plan of their own, where emit_routed() counts the batches.
  void declare(plan::Buffers& buffers, bool keys_ahead);
  void emit(plan::Plan& plan);
  void emit_routed(plan::Plan& keys);

  [[nodiscard]] plan::BufferId step() const { return step_; }  // int64, from 1
  // int64: batches routed before; kNoBuffer without keys_ahead.
  [[nodiscard]] plan::BufferId routed() const { return routed_; }
  [[nodiscard]] plan::BufferId dense_rate() const { return rates_[0]; }  // float, as are all
  [[nodiscard]] plan::BufferId embedding_rate(size_t layer) const { return rates_[layer + 1]; }

  // Iterations done, set by a resume; the dense rate of the last one. They wait for a GPU.
  [[nodiscard]] int64_t iterations() const { return buffers_->value<int64_t>(step_); }
  void set_iterations(int64_t n) {
    buffers_->set_value(step_, n);
    if (routed_ != plan::kNoBuffer) buffers_->set_value(routed_, n);
  }
  // The factor of all schedules' rates: 1 at first, lowered by the cuts after evaluations.
  [[nodiscard]] float scale() const { return buffers_->value<float>(scale_); }
  void set_scale(float scale) { buffers_->set_value(scale_, scale); }
  [[nodiscard]] float last_dense_rate() const { return buffers_->value<float>(dense_rate()); }

 private:
  std::vector<optimizer::LrSchedule> schedules_;  // of the network, then of each embedding layer
  std::vector<std::string> names_;                // of their buffers
  plan::Buffers* buffers_ = nullptr;
  plan::BufferId step_ = plan::kNoBuffer, routed_ = plan::kNoBuffer, scale_ = plan::kNoBuffer;
  std::vector<plan::BufferId> rates_;
};

}  // namespace hlite::trainer
