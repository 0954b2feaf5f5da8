#include "hugectr_lite/trainer/model/loss_scaling.h"

#include "hugectr_lite/ops/non_finite.h"

namespace hlite::trainer {
namespace {
constexpr float kFirstDynamicScale = 0x1p16f;
constexpr int32_t kGrowAfter = 2000;  // iterations, as in Apex and PyTorch
}  // namespace

LossScaling::LossScaling(std::optional<int64_t> fixed, FloatType type, const ModelLayers& layers,
                         const GradientSum* sum)
    : type_(type), layers_(layers), sum_(sum) {
  if (type == FloatType::kFloat) return;
  dynamic_ = type == FloatType::kFp16 && !fixed;
  if (dynamic_)
    first_scale_ = kFirstDynamicScale;
  else if (fixed)
    first_scale_ = static_cast<float>(*fixed);
}

void LossScaling::declare(plan::Buffers& buffers) {
  buffers_ = &buffers;
  if (!used()) return;
  static_assert(offsetof(optimizer::LossScale, scale) == 0);
  state_ = buffers.add("solver.loss_scale", plan::BufferKind::kState, sizeof(optimizer::LossScale));
  scale_ = buffers.slice("solver.loss_scale.scale", state_, 0, sizeof(float));
  if (dynamic_)
    found_ = buffers.slice("solver.loss_scale.found", state_, offsetof(optimizer::LossScale, found),
                           sizeof(int32_t));
}

void LossScaling::initialize() {
  if (used()) buffers_->set_value(state_, optimizer::loss_scale_from(first_scale_));
}

std::optional<optimizer::LossScale> LossScaling::dynamic_state() const {
  if (!dynamic_) return std::nullopt;
  return buffers_->value<optimizer::LossScale>(state_);
}

void LossScaling::set_dynamic_state(const optimizer::LossScale& state) {
  if (dynamic_) buffers_->set_value(state_, state);
}

std::vector<LossScaling::Gradients> LossScaling::checked_gradients() const {
  const network::Network& network = *layers_.network;
  std::vector<Gradients> gradients = {
      {.id = network.gradient_buffer(), .count = network.parameter_bytes() / kFloatBytes}};
  for (size_t i = 0; i < layers_.embeddings.size(); ++i) {
    const size_t input = ModelLayers::kFirstEmbedding + i;
    const auto& layout = layers_.embeddings[i]->layout();
    if (network.input_grad(input) != plan::kNoBuffer && !network.finds_overflow(input))
      gradients.push_back({.id = network.input_grad(input),
                           .type = type_,
                           .per_sample = layout.slots() * layout.width});
  }
  return gradients;
}

void LossScaling::find(const plan::StepContext& c, const std::vector<Gradients>& gradients) const {
  int32_t* const found = buffers_->data<int32_t>(found_);
  for (const Gradients& g : gradients)
    with_float_type(g.type, [&]<typename T>() {
      ops::flag_non_finite<T>(
          c.exec, Vector<T>(buffers_->data<T>(g.id), g.count + c.batch * g.per_sample), found);
    });
}

void LossScaling::emit_find(plan::Plan& plan) const {
  const auto gradients = checked_gradients();
  std::vector<plan::BufferId> reads = {found_};
  for (const Gradients& g : gradients) reads.push_back(g.id);
  plan.add({.name = "loss_scale.find",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {found_, sum_->found()},
            .run = [this, gradients](const plan::StepContext& c) {
              find(c, gradients);
              optimizer::tell_found(c.exec, buffers_->data<optimizer::LossScale>(state_),
                                    buffers_->data<float>(sum_->found()));
            }});
}

void LossScaling::emit(plan::Plan& plan, Stage stage, network::Phase) {
  if (!dynamic_) return;
  if (stage == Stage::kRowGradients && sum_) emit_find(plan);
  if (stage != Stage::kLossScale) return;
  std::vector<plan::BufferId> reads = {state_};
  std::vector<Gradients> gradients;
  if (sum_) {
    reads.insert(reads.end(), {sum_->found(), sum_->overflow()});
  } else {
    gradients = checked_gradients();
    for (const Gradients& g : gradients) reads.push_back(g.id);
  }
  plan.add({.name = "loss_scale",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {state_},
            .run = [this, gradients](const plan::StepContext& c) {
              find(c, gradients);
              optimizer::RanksVerdict ranks;
              if (sum_)
                ranks = {.found = buffers_->data<float>(sum_->found()),
                         .overflow = buffers_->data<int32_t>(sum_->overflow())};
              optimizer::update_loss_scale(c.exec, kGrowAfter,
                                           buffers_->data<optimizer::LossScale>(state_), ranks);
            }});
}

}  // namespace hlite::trainer
