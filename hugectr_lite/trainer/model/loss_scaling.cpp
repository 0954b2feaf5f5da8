#include "hugectr_lite/trainer/model/loss_scaling.h"

#include "hugectr_lite/ops/non_finite.h"

namespace hlite::trainer {
namespace {
constexpr float kInitialDynamicScale = 0x1p16f;
constexpr int32_t kGrowAfter = 2000;  // iterations, as in Apex and PyTorch
}  // namespace

LossScaling::LossScaling(std::optional<int64_t> fixed, FloatType type, const ModelLayers& layers,
                         const RunStatus* status)
    : type_(type), layers_(layers), status_(status) {
  if (type == FloatType::kFloat) return;
  dynamic_ = type == FloatType::kFp16 && !fixed;
  if (dynamic_)
    initial_scale_ = kInitialDynamicScale;
  else if (fixed)
    initial_scale_ = static_cast<float>(*fixed);
}

void LossScaling::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (!used()) return;
  static_assert(offsetof(optimizer::LossScale, scale) == 0);
  state_ = buffers.add("solver.loss_scale", plan::BufferKind::kState, sizeof(optimizer::LossScale));
  scale_ = buffers.slice("solver.loss_scale.scale", state_, 0, sizeof(float));
  if (dynamic_)
    gradient_overflow_ =
        buffers.slice("solver.loss_scale.gradient_overflow", state_,
                      offsetof(optimizer::LossScale, gradient_overflow), sizeof(int32_t));
}

void LossScaling::initialize() {
  if (used()) buffers_->set_value(state_, optimizer::loss_scale_from(initial_scale_));
}

std::optional<optimizer::LossScale> LossScaling::dynamic_state() const {
  if (!dynamic_) return std::nullopt;
  return buffers_->value<optimizer::LossScale>(state_);
}

void LossScaling::set_dynamic_state(const optimizer::LossScale& state) {
  if (dynamic_) buffers_->set_value(state_, state);
}

std::vector<LossScaling::CheckedGradients> LossScaling::checked_gradients() const {
  const network::Network& network = *layers_.network;
  std::vector<CheckedGradients> gradients = {
      {.id = network.gradient_buffer(), .count = network.parameter_bytes() / kFloatBytes}};
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    const auto& layout = layers_.embeddings[i]->layout();
    const plan::BufferId id = layers_.vector_gradients(i);
    if (id != plan::kNoBuffer && !layers_.finds_gradient_overflow(i))
      gradients.push_back({.id = id, .type = type_, .per_sample = layout.slots() * layout.width});
  }
  return gradients;
}

void LossScaling::find(const plan::StepContext& c,
                       const std::vector<CheckedGradients>& gradients) const {
  int32_t* const found = buffers_->data<int32_t>(gradient_overflow_);
  for (const CheckedGradients& g : gradients)
    with_float_type(g.type, [&]<typename T>() {
      ops::flag_non_finite<T>(
          c.exec, Vector<T>(buffers_->data<T>(g.id), g.count + c.batch * g.per_sample), found);
    });
}

void LossScaling::emit_find(plan::Plan& plan) const {
  if (!dynamic_ || !status_) return;
  const auto gradients = checked_gradients();
  std::vector<plan::BufferId> reads = {gradient_overflow_};
  for (const CheckedGradients& g : gradients) reads.push_back(g.id);
  plan.add({.name = "loss_scale.find",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {gradient_overflow_, status_->gradient_overflow()},
            .run = [this, gradients](const plan::StepContext& c) {
              find(c, gradients);
              optimizer::report_gradient_overflow(
                  c.exec, buffers_->data<optimizer::LossScale>(state_),
                  buffers_->data<float>(status_->gradient_overflow()));
            }});
}

void LossScaling::emit_decision(plan::Plan& plan) const {
  if (!dynamic_) return;
  std::vector<plan::BufferId> reads = {state_};
  std::vector<CheckedGradients> gradients;
  if (status_) {
    reads.insert(reads.end(), {status_->gradient_overflow(), status_->capacity_exceeded()});
  } else {
    gradients = checked_gradients();
    for (const CheckedGradients& g : gradients) reads.push_back(g.id);
  }
  plan.add({.name = "loss_scale",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {state_},
            .run = [this, gradients](const plan::StepContext& c) {
              find(c, gradients);
              optimizer::RanksVerdict ranks;
              if (status_)
                ranks = {
                    .gradient_overflow = buffers_->data<float>(status_->gradient_overflow()),
                    .capacity_exceeded = buffers_->data<int32_t>(status_->capacity_exceeded())};
              optimizer::update_loss_scale(c.exec, kGrowAfter,
                                           buffers_->data<optimizer::LossScale>(state_), ranks);
            }});
}

}  // namespace hlite::trainer
