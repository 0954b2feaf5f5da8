// Learning rate of a step: linear warm-up, constant, polynomial decay, constant.
//
//   s <= warmup                      base * s / warmup
//   decay_start == 0                 base
//   s <= decay_start                 base
//   s <= decay_start + decay_steps   max(end, base * (left / decay_steps)^power),
//                                    left = decay_start + decay_steps - s
//   else                             end
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/core/host_device.h"

namespace hlite::optimizer {

using config::LrSchedule;

// `step` counts from 1: the first iteration of a run is step 1.
HLITE_HD inline double learning_rate(const LrSchedule& schedule, int64_t step) {
  if (step <= schedule.warmup_steps)
    return schedule.base * static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  if (schedule.decay_start == 0 || step <= schedule.decay_start) return schedule.base;
  const int64_t left = schedule.decay_start + schedule.decay_steps - step;
  if (left < 0) return schedule.end;
  const double share = static_cast<double>(left) / static_cast<double>(schedule.decay_steps);
  const double decayed = schedule.base * pow(share, schedule.decay_power);
  return decayed > schedule.end ? decayed : schedule.end;
}

}  // namespace hlite::optimizer
