// Learning rate of a step: linear warm-up, constant, decay.
//
//   s <= warmup                         base * s / warmup
//   decay_start == 0                    base
//   s <= decay_start                    base
//   else, with t = (s - decay_start) / decay_steps:
//     polynomial    t <= 1: max(end, base * (1 - t)^power),             t > 1: end
//     cosine        t <= 1: end + (base - end) * (1 + cos(pi t)) / 2,   t > 1: end
//     exponential   max(end, base * decay_rate^t)
//
// With decay_start = 1, cosine is the first cycle of SGDR (Loshchilov and Hutter, 2017) and of
// PyTorch's CosineAnnealingLR, whose step 0 is our step 1. Exponential with decay_steps = 1 is
// PyTorch's ExponentialLR.
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/config/optimizer_config.h"
#include "hugectr_lite/core/host_device.h"

namespace hlite::optimizer {

using config::LrSchedule;

// sin(pi/2 x), x in [0, 1], by its series. CUDA's sin() would need a stack, for large arguments.
HLITE_HD inline double sine_of_quarters(double x) {
  constexpr double kHalfPi = 1.5707963267948966;
  const double angle = kHalfPi * x;
  double series = 1;
  for (int n = 11; n >= 1; --n) series = 1 - angle * angle / (2 * n * (2 * n + 1)) * series;
  return angle * series;
}

// `step` counts from 1: the first iteration of a run is step 1.
HLITE_HD inline double learning_rate(const LrSchedule& schedule, int64_t step) {
  if (step <= schedule.warmup_steps)
    return schedule.base * static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  if (schedule.decay_start == 0 || step <= schedule.decay_start) return schedule.base;
  const int64_t left = schedule.decay_start + schedule.decay_steps - step;
  const auto steps = static_cast<double>(schedule.decay_steps);
  double decayed = 0;
  if (schedule.decay == config::LrDecay::kExponential) {
    const double done = static_cast<double>(step - schedule.decay_start) / steps;
    decayed = schedule.base * pow(schedule.decay_rate, done);
  } else {
    if (left < 0) return schedule.end;
    const double share = static_cast<double>(left) / steps;
    const double sine = sine_of_quarters(share);  // its square: (1 + cos(pi (1 - share))) / 2
    decayed = schedule.decay == config::LrDecay::kCosine
                  ? schedule.end + (schedule.base - schedule.end) * (sine * sine)
                  : schedule.base * pow(share, schedule.decay_power);
  }
  return decayed > schedule.end ? decayed : schedule.end;
}

}  // namespace hlite::optimizer
