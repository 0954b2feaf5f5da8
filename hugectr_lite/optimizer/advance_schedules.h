// The start of an iteration: the step number goes up and every optimizer gets its learning rate.
#pragma once

#include <cstdint>
#include <span>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/optimizer/lr_schedule.h"

namespace hlite::optimizer {

// *step += 1; *rates[i] = *scale * learning_rate(schedules[i], *step). As many rates as schedules;
// `step`, `scale` and the rates are in memory of the op's device, the two lists in the host's.
void advance_schedules(const Exec& exec, std::span<const LrSchedule> schedules, int64_t* step,
                       const float* scale, std::span<float* const> rates);

namespace kernels {
inline const KernelOf<decltype(optimizer::advance_schedules)> advance_schedules{
    "advance_schedules"};
}  // namespace kernels

}  // namespace hlite::optimizer
