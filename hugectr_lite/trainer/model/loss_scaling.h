// The loss scale of a model in mixed precision: none, fixed (`mixed_precision`), or, for fp16
// without a fixed one, dynamic (optimizer/loss_scale.h).
#pragma once

#include <optional>
#include <vector>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/gradient_sum.h"
#include "hugectr_lite/trainer/model/plan_part.h"

namespace hlite::trainer {

class LossScaling final : public PlanPart {
 public:
  // `type`: of the activations of the layers, which must outlive it. `fixed`: the scale, where the
  // config names one that is for this device. `sum`: of several ranks, or null; must outlive it.
  LossScaling(std::optional<int64_t> fixed, FloatType type, const ModelLayers& layers,
              const GradientSum* sum);

  [[nodiscard]] bool used() const { return first_scale_ > 0; }
  void declare(plan::Buffers& buffers) override;
  // Of a dynamic scale: the step "loss_scale" looks for overflow in all gradients, but in those
  // whose layer sets found(), and decides whether the updates, which must come behind it, take
  // place. On several ranks "loss_scale.find" looks, before gradients are summed, and what ranks
  // have found travels with these: a rank's embedding gradients are of its samples alone. A sum of
  // products of finite fp16 numbers is far from the end of float and bf16, so that nothing
  // overflows on the way.
  void emit(plan::Plan& plan, Stage stage, network::Phase phase) override;
  // An optimizer::LossScale, and the float in it that the loss's gradient is
  // multiplied by; else kNoBuffer.
  [[nodiscard]] plan::BufferId state() const { return state_; }
  [[nodiscard]] plan::BufferId scale() const { return scale_; }
  // Of a dynamic scale: the int32 in it that is set to 1 by whoever finds overflow in a gradient;
  // else kNoBuffer.
  [[nodiscard]] plan::BufferId found() const { return found_; }

  // Sets the scale that training begins with. REQUIRES allocated buffers.
  void initialize();
  // Of a dynamic scale, which a checkpoint keeps; nothing where there is none. Waits for a GPU.
  [[nodiscard]] std::optional<optimizer::LossScale> dynamic_state() const;
  void set_dynamic_state(const optimizer::LossScale& state);

 private:
  // Gradients of `type`: `count` of them, and `per_sample` for each of the batch.
  struct Gradients {
    plan::BufferId id = plan::kNoBuffer;
    FloatType type = FloatType::kFloat;
    int64_t count = 0, per_sample = 0;
  };
  [[nodiscard]] std::vector<Gradients> checked_gradients() const;
  void find(const plan::StepContext& context, const std::vector<Gradients>& gradients) const;
  void emit_find(plan::Plan& plan) const;

  const FloatType type_;
  const ModelLayers& layers_;
  const GradientSum* const sum_;
  plan::Buffers* buffers_ = nullptr;
  bool dynamic_ = false;
  float first_scale_ = 0;  // 0: none
  plan::BufferId state_ = plan::kNoBuffer, scale_ = plan::kNoBuffer, found_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
