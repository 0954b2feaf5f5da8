#include "hugectr_lite/trainer/model/learning_rates.h"

#include "hugectr_lite/optimizer/advance_schedules.h"

namespace hlite::trainer {

LearningRates::LearningRates(
    const config::OptimizerConfig& optimizer,
    const std::vector<std::unique_ptr<embedding::EmbeddingLayer>>& embeddings)
    : schedules_{optimizer.schedule}, names_{"solver.learning_rate"} {
  for (const auto& e : embeddings) {
    schedules_.push_back(e->schedule());
    names_.push_back(e->name() + ".learning_rate");
  }
}

void LearningRates::declare(plan::Buffers& buffers, bool keys_ahead) {
  buffers_ = &buffers;
  step_ = buffers.add("solver.step", plan::BufferKind::kState, sizeof(int64_t));
  if (keys_ahead)
    routed_ = buffers.add("solver.routed_batches", plan::BufferKind::kState, sizeof(int64_t));
  scale_ = buffers.add("solver.rate_scale", plan::BufferKind::kState, kFloatBytes);
  for (const std::string& name : names_)
    rates_.push_back(buffers.add(name, plan::BufferKind::kState, kFloatBytes));
}

// On the lane of the notice, which says that the plan has ended.
void LearningRates::emit_routed(plan::Plan& keys) {
  keys.add({.name = "count_routed",
            .lane = plan::Lane::kComm,
            .reads = {routed_},
            .writes = {routed_},
            .run = [this](const plan::StepContext& c) {
              optimizer::advance_schedules(c.exec, {}, buffers_->data<int64_t>(routed_),
                                           buffers_->data<float>(scale_), {});
            }});
}

void LearningRates::emit(plan::Plan& plan) {
  std::vector<plan::BufferId> writes = {step_};
  writes.insert(writes.end(), rates_.begin(), rates_.end());
  // Runs after the lookups, on their lane: only updates wait for it (and dropout, for the step).
  plan.add({.name = "learning_rate",
            .lane = plan::Lane::kEmbedding,
            .reads = {step_, scale_},
            .writes = writes,
            // The list lives in the step: an iteration allocates nothing.
            .run = [this, rates = std::vector<float*>(rates_.size())](
                       const plan::StepContext& c) mutable {
              for (size_t i = 0; i < rates.size(); ++i) rates[i] = buffers_->data<float>(rates_[i]);
              optimizer::advance_schedules(c.exec, schedules_, buffers_->data<int64_t>(step_),
                                           buffers_->data<float>(scale_), rates);
            }});
}

}  // namespace hlite::trainer
