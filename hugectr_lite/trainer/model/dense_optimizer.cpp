#include "hugectr_lite/trainer/model/dense_optimizer.h"

#include "hugectr_lite/core/error.h"
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
      clip_(parts.clip) {}

void DenseOptimizer::declare(plan::Buffers& buffers) {
  for (int i = 0; i < optimizer::state_count(rule_.type); ++i)
    states_.push_back(buffers.add(fmt::format("dense.{}", optimizer::state_name(rule_.type, i)),
                                  plan::BufferKind::kState, network_.parameter_bytes()));
}

void DenseOptimizer::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (stage != Stage::kDenseUpdate || network_.parameter_bytes() == 0) return;
  const BufferId w = network_.parameter_buffer();
  std::vector<BufferId> reads = {w, network_.gradient_buffer(), rates_.dense_rate(), rates_.step()},
                        writes = {w};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  if (network_.working_buffer() != w) writes.push_back(network_.working_buffer());
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
}

void DenseOptimizer::update(const plan::Buffers& buffers, const Exec& exec) const {
  const int64_t n = network_.parameter_bytes() / kFloatBytes;
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
    const auto mirror = working == w ? Vector<T>() : network::vector<T>(buffers, working, n);
    optimizer::dense_update<T>(exec, rule_, buffers.data<float>(rates_.dense_rate()),
                               buffers.data<int64_t>(rates_.step()),
                               {.w = network::vector(buffers, w, n),
                                .g = network::vector(buffers, network_.gradient_buffer(), n),
                                .state0 = state(0),
                                .state1 = state(1)},
                               scale, mirror);
  });
}

}  // namespace hlite::trainer
