// The loss scale of a model in mixed precision: none, fixed (`mixed_precision`), or, for fp16
// without a fixed one, dynamic (optimizer/loss_scale.h).
#pragma once

#include <optional>
#include <vector>

#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/run_status.h"

namespace hlite::trainer {

class LossScaling {
 public:
  // `type`: of the activations of the layers, which must outlive it. `fixed`: the scale, where the
  // config names one that is for this device. `status`: null on one rank; must outlive it.
  LossScaling(std::optional<int64_t> fixed, FloatType type, const ModelLayers& layers,
              const RunStatus* status);

  [[nodiscard]] bool used() const { return initial_scale_ > 0; }
  void declare(plan::Buffers& buffers);
  // The steps of a dynamic scale. "loss_scale" looks for overflow in all gradients, except those
  // whose layer sets gradient_overflow(), and decides whether the updates, which come after it,
  // take place. On several ranks "loss_scale.find" looks before gradients are summed, and the flag
  // travels with them, because a rank's embedding gradients are of its samples alone. A sum of
  // products of finite fp16 numbers is far from the end of float and bf16, so the sum itself cannot
  // overflow.
  void emit_find(plan::Plan& plan) const;
  void emit_decision(plan::Plan& plan) const;
  // An optimizer::LossScale, and the float in it that the loss's gradient is
  // multiplied by; else kNoBuffer.
  [[nodiscard]] plan::BufferId state() const { return state_; }
  [[nodiscard]] plan::BufferId scale() const { return scale_; }
  // The int32 of a dynamic scale that a step sets to 1 when a gradient overflows; else kNoBuffer.
  [[nodiscard]] plan::BufferId gradient_overflow() const { return gradient_overflow_; }

  // Sets the scale that training begins with. REQUIRES allocated buffers.
  void initialize();
  // Returns the state of a dynamic scale, which a checkpoint keeps; nullopt if the scale is not
  // dynamic. Waits for a GPU.
  [[nodiscard]] std::optional<optimizer::LossScale> dynamic_state() const;
  void set_dynamic_state(const optimizer::LossScale& state);

 private:
  // Gradients of `type`: `count` of them, and `per_sample` for each of the batch.
  struct CheckedGradients {
    plan::BufferId id = plan::kNoBuffer;
    FloatType type = FloatType::kFloat;
    int64_t count = 0, per_sample = 0;
  };
  [[nodiscard]] std::vector<CheckedGradients> checked_gradients() const;
  void find(const plan::StepContext& context, const std::vector<CheckedGradients>& gradients) const;

  const FloatType type_;
  const ModelLayers& layers_;
  const RunStatus* const status_;
  plan::Buffers* buffers_ = nullptr;
  bool dynamic_ = false;
  float initial_scale_ = 0;  // 0: none
  plan::BufferId state_ = plan::kNoBuffer, scale_ = plan::kNoBuffer,
                 gradient_overflow_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
