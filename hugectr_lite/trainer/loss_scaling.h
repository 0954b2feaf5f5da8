// The loss scale of a model in mixed precision: none, fixed (`mixed_precision`), or, for fp16
// without a fixed one, dynamic (optimizer/loss_scale.h).
#pragma once

#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/optimizer/loss_scale.h"
#include "hugectr_lite/plan/plan.h"

namespace hlite::trainer {

class LossScaling {
 public:
  // `type`: of the activations.
  LossScaling(const config::SolverConfig& solver, FloatType type);

  [[nodiscard]] bool used() const { return first_scale_ > 0; }
  [[nodiscard]] bool dynamic() const { return dynamic_; }
  // Names the buffer, if there is a scale.
  void declare(plan::Buffers& buffers);
  // An optimizer::LossScale, and the float in it that the loss's gradient is multiplied by; else
  // kNoBuffer.
  [[nodiscard]] plan::BufferId state() const { return state_; }
  [[nodiscard]] plan::BufferId scale() const { return scale_; }
  // Of a dynamic scale: the int32 in it that is set to 1 by whoever finds overflow in a gradient;
  // else kNoBuffer.
  [[nodiscard]] plan::BufferId found() const { return found_; }
  [[nodiscard]] optimizer::LossScale first_state() const {
    return optimizer::loss_scale_from(first_scale_);
  }

  // Gradients of `type`: `count` of them, and `per_sample` for each of the batch.
  struct Gradients {
    plan::BufferId id = plan::kNoBuffer;
    FloatType type = FloatType::kFloat;
    int64_t count = 0, per_sample = 0;
  };
  // Of a dynamic scale: a step that looks for overflow in all of them, which are those that nobody
  // sets found() for, and decides whether the updates, which must come behind it, take place.
  void emit_check(plan::Plan& plan, const std::vector<Gradients>& gradients) const;

 private:
  bool dynamic_ = false;
  float first_scale_ = 0;  // 0: none
  plan::BufferId state_ = plan::kNoBuffer, scale_ = plan::kNoBuffer, found_ = plan::kNoBuffer;
};

}  // namespace hlite::trainer
