#include "hugectr_lite/trainer/model/dense_optimizer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/optimizer/dense_update.h"

namespace hlite::trainer {

using plan::BufferId;

DenseOptimizer::DenseOptimizer(const config::OptimizerConfig& config, FloatType type,
                               const LayerParts& parts)
    : rule_(config.rule),
      type_(type),
      network_(*parts.layers.network),
      rates_(parts.rates),
      loss_scaling_(parts.loss_scaling),
      gradient_sum_(parts.gradient_sum),
      shard_(parts.gradient_sum ? parts.gradient_sum->shard() : nullptr),
      clip_(parts.clip) {}

comm::Slice DenseOptimizer::updated() const {
  if (shard_) return shard_->own();
  return {0, static_cast<size_t>(network_.parameter_bytes() / kFloatBytes)};
}

BufferId DenseOptimizer::gradients() const {
  return shard_ ? shard_->gradients() : network_.gradient_buffer();
}

void DenseOptimizer::declare(plan::Buffers& buffers) {
  for (int i = 0; i < optimizer::state_count(rule_.type); ++i)
    states_.push_back(buffers.add(fmt::format("dense.{}", optimizer::state_name(rule_.type, i)),
                                  plan::BufferKind::kState,
                                  static_cast<int64_t>(updated().size()) * kFloatBytes));
}

void DenseOptimizer::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (stage != Stage::kDenseUpdate || network_.parameter_bytes() == 0) return;
  const BufferId w = network_.parameter_buffer();
  std::vector<BufferId> reads = {w, gradients(), rates_.dense_rate(), rates_.step()}, writes = {w};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  if (network_.working_buffer() != w && !shard_) writes.push_back(network_.working_buffer());
  if (loss_scaling_.used()) reads.push_back(loss_scaling_.state());
  if (gradient_sum_) reads.push_back(gradient_sum_->overflow());
  if (clip_) reads.push_back(clip_->dense_factor());
  plan.add({.name = "dense_update",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = writes,
            .run = [this, buffers = &plan.buffers()](const plan::StepContext& c) {
              update(*buffers, c.exec);
            }});
  if (shard_) emit_gather(plan);
}

// Every rank rounds all.
void DenseOptimizer::emit_gather(plan::Plan& plan) const {
  const BufferId w = network_.parameter_buffer(), working = network_.working_buffer();
  shard_->emit_gather(plan, w);
  if (working == w) return;
  plan.add({.name = "round_weights",
            .lane = plan::Lane::kCompute,
            .reads = {w},
            .writes = {working},
            .run = [this, buffers = &plan.buffers()](const plan::StepContext& c) {
              round_weights(*buffers, c.exec);
            }});
}

void DenseOptimizer::round_weights(const plan::Buffers& buffers, const Exec& exec) const {
  const BufferId w = network_.parameter_buffer(), working = network_.working_buffer();
  if (working == w) return;
  const int64_t n = network_.parameter_bytes() / kFloatBytes;
  with_float_type(type_, [&]<typename T>() {
    ops::cast_from_float<T>(exec, network::vector(buffers, w, n),
                            network::vector<T>(buffers, working, n));
  });
}

void DenseOptimizer::update(const plan::Buffers& buffers, const Exec& exec) const {
  const auto n = static_cast<int64_t>(updated().size());
  const BufferId w = network_.parameter_buffer(), working = network_.working_buffer();
  const auto state = [&](size_t i) {
    return i < states_.size() ? network::vector(buffers, states_[i], n) : Vector<float>();
  };
  optimizer::GradientScale scale;
  if (loss_scaling_.used())
    scale = optimizer::gradient_scale(*buffers.data<optimizer::LossScale>(loss_scaling_.state()));
  if (gradient_sum_) scale.overflow = buffers.data<int32_t>(gradient_sum_->overflow());
  if (clip_) scale.inverse = buffers.data<float>(clip_->dense_factor());
  with_float_type(type_, [&]<typename T>() {
    const auto first = static_cast<int64_t>(updated().begin);
    const auto mirror =
        working == w || shard_ ? Vector<T>() : network::vector<T>(buffers, working, n);
    optimizer::dense_update<T>(exec, rule_, buffers.data<float>(rates_.dense_rate()),
                               buffers.data<int64_t>(rates_.step()),
                               {.w = Vector<float>(buffers.data<float>(w) + first, n),
                                .g = network::vector(buffers, gradients(), n),
                                .state0 = state(0),
                                .state1 = state(1)},
                               scale, mirror);
  });
}

}  // namespace hlite::trainer
