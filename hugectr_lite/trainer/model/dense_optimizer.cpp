#include "hugectr_lite/trainer/model/dense_optimizer.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cast.h"
#include "hugectr_lite/optimizer/dense_update.h"

namespace hlite::trainer {

using plan::BufferId;

DenseOptimizer::DenseOptimizer(const config::OptimizerConfig& config, FloatType type,
                               const DenseOptimizerParts& parts)
    : rule_(config.rule), type_(type), with_(parts) {}

comm::Slice DenseOptimizer::updated() const {
  if (with_.shard) return with_.shard->own();
  return {0, static_cast<size_t>(with_.network.parameter_bytes() / kFloatBytes)};
}

BufferId DenseOptimizer::gradients() const {
  return with_.shard ? with_.shard->gradients() : with_.network.gradient_buffer();
}

void DenseOptimizer::declare(plan::Buffers& buffers) {
  for (int i = 0; i < optimizer::state_count(rule_.type); ++i)
    states_.push_back(buffers.add(fmt::format("dense.{}", optimizer::state_name(rule_.type, i)),
                                  plan::BufferKind::kState,
                                  static_cast<int64_t>(updated().size()) * kFloatBytes));
}

void DenseOptimizer::emit(plan::Plan& plan) {
  if (with_.network.parameter_bytes() == 0) return;
  const BufferId w = with_.network.parameter_buffer();
  std::vector<BufferId> reads = {w, gradients(), with_.rates.dense_rate(), with_.rates.step()},
                        writes = {w};
  reads.insert(reads.end(), states_.begin(), states_.end());
  writes.insert(writes.end(), states_.begin(), states_.end());
  if (with_.network.working_buffer() != w && !with_.shard)
    writes.push_back(with_.network.working_buffer());
  if (with_.loss_scaling.used()) reads.push_back(with_.loss_scaling.state());
  if (with_.status) reads.push_back(with_.status->capacity_exceeded());
  if (with_.clip) reads.push_back(with_.clip->dense_factor());
  plan.add({.name = "dense_update",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = writes,
            .run = [this, buffers = &plan.buffers()](const plan::StepContext& c) {
              update(*buffers, c.exec);
            }});
  if (with_.shard) emit_gather(plan);
}

// Every rank rounds all.
void DenseOptimizer::emit_gather(plan::Plan& plan) const {
  const BufferId w = with_.network.parameter_buffer(), working = with_.network.working_buffer();
  with_.shard->emit_gather(plan, w);
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
  const BufferId w = with_.network.parameter_buffer(), working = with_.network.working_buffer();
  if (working == w) return;
  const int64_t n = with_.network.parameter_bytes() / kFloatBytes;
  with_float_type(type_, [&]<typename T>() {
    ops::cast_from_float<T>(exec, network::vector(buffers, w, n),
                            network::vector<T>(buffers, working, n));
  });
}

void DenseOptimizer::update(const plan::Buffers& buffers, const Exec& exec) const {
  const auto n = static_cast<int64_t>(updated().size());
  const BufferId w = with_.network.parameter_buffer(), working = with_.network.working_buffer();
  const auto state = [&](size_t i) {
    return i < states_.size() ? network::vector(buffers, states_[i], n) : Vector<float>();
  };
  optimizer::GradientScale scale;
  if (with_.loss_scaling.used())
    scale =
        optimizer::gradient_scale(*buffers.data<optimizer::LossScale>(with_.loss_scaling.state()));
  if (with_.status)
    scale.capacity_exceeded = buffers.data<int32_t>(with_.status->capacity_exceeded());
  if (with_.clip) scale.inverse = buffers.data<float>(with_.clip->dense_factor());
  with_float_type(type_, [&]<typename T>() {
    const auto first = static_cast<int64_t>(updated().begin);
    const auto mirror =
        working == w || with_.shard ? Vector<T>() : network::vector<T>(buffers, working, n);
    optimizer::dense_update<T>(exec, rule_, buffers.data<float>(with_.rates.dense_rate()),
                               buffers.data<int64_t>(with_.rates.step()),
                               {.w = Vector<float>(buffers.data<float>(w) + first, n),
                                .g = network::vector(buffers, gradients(), n),
                                .state0 = state(0),
                                .state1 = state(1)},
                               scale, mirror);
  });
}

}  // namespace hlite::trainer
