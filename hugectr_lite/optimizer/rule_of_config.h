// The update rule and the learning-rate schedule that an optimizer block asks for. Apart from both,
// because kernels cannot include the config's headers.
#pragma once

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::optimizer {

inline UpdateRule update_rule_of(const config::OptimizerConfig& c) {
  return {.type = c.type,
          .momentum = c.momentum_factor,
          .beta1 = c.beta1,
          .beta2 = c.beta2,
          .epsilon = c.epsilon,
          .initial_accumulator = c.initial_accumulator};
}

inline LrSchedule lr_schedule_of(const config::OptimizerConfig& c) {
  return {.base = c.learning_rate,
          .warmup_steps = c.warmup_steps,
          .decay_start = c.decay_start,
          .decay_steps = c.decay_steps,
          .decay_power = c.decay_power,
          .end = c.end_lr};
}

}  // namespace hlite::optimizer
