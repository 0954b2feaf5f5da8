#include "hugectr_lite/trainer/loss_scaling.h"

#include "hugectr_lite/ops/scan.h"

namespace hlite::trainer {
namespace {
constexpr float kFirstDynamicScale = 0x1p16f;
constexpr int32_t kGrowAfter = 2000;  // iterations, as in Apex and PyTorch
}  // namespace

LossScaling::LossScaling(const config::SolverConfig& solver, FloatType type) {
  if (type == FloatType::kFloat) return;
  dynamic_ = type == FloatType::kFp16 && !solver.mixed_precision;
  if (dynamic_)
    first_scale_ = kFirstDynamicScale;
  else if (solver.mixed_precision)
    first_scale_ = static_cast<float>(*solver.mixed_precision);
}

void LossScaling::declare(plan::Buffers& buffers) {
  if (!used()) return;
  static_assert(offsetof(optimizer::LossScale, scale) == 0);
  state_ = buffers.add("solver.loss_scale", plan::BufferKind::kState, sizeof(optimizer::LossScale));
  scale_ = buffers.slice("solver.loss_scale.scale", state_, 0, sizeof(float));
  if (dynamic_)
    found_ = buffers.slice("solver.loss_scale.found", state_, offsetof(optimizer::LossScale, found),
                           sizeof(int32_t));
}

void LossScaling::emit_check(plan::Plan& plan, const std::vector<Gradients>& gradients) const {
  if (!dynamic_) return;
  std::vector<plan::BufferId> reads = {state_};
  for (const Gradients& g : gradients) reads.push_back(g.id);
  const plan::Buffers* const buffers = &plan.buffers();
  plan.add({.name = "loss_scale",
            .lane = plan::Lane::kCompute,
            .reads = reads,
            .writes = {state_},
            .run = [=, state = state_](const plan::StepContext& c) {
              auto* const scale = buffers->data<optimizer::LossScale>(state);
              for (const Gradients& g : gradients)
                with_float_type(g.type, [&]<typename T>() {
                  ops::flag_non_finite<T>(
                      c.exec, Vector<T>(buffers->data<T>(g.id), g.count + c.batch * g.per_sample),
                      &scale->found);
                });
              optimizer::update_loss_scale(c.exec, kGrowAfter, scale);
            }});
}

}  // namespace hlite::trainer
