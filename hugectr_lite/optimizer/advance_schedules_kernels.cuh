// Step number and learning rates on device memory: the launcher of the kernel in
// advance_schedules.cu, with the contract of advance_schedules.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/optimizer/lr_schedule.h"

namespace hlite::optimizer::gpu {

// `schedules` and `rates`: `count` each, in host memory; the rates point to device memory.
void advance_schedules(cudaStream_t stream, const LrSchedule* schedules, float* const* rates,
                       int64_t count, int64_t* step);

}  // namespace hlite::optimizer::gpu
