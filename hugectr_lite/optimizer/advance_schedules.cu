// The kernel of the learning rates: one warp, a thread a schedule, in the doubles of the CPU. The
// schedules travel with the launch.
#include "hugectr_lite/optimizer/advance_schedules.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::optimizer::gpu {
namespace {

constexpr int kMaxSchedules = 16;
constexpr int kThreads = 32;

struct Schedules {
  LrSchedule list[kMaxSchedules];
  float* rates[kMaxSchedules];
  int count;
};

// by: 1, or 0 where an earlier launch has counted the step.
__global__ void __launch_bounds__(kThreads)
    advance_kernel(const __grid_constant__ Schedules schedules, int64_t* step, int64_t by,
                   const float* scale) {
  const int64_t now = *step + by;
  __syncthreads();  // all have read the step
  if (threadIdx.x == 0) *step = now;
  const int i = static_cast<int>(threadIdx.x);
  if (i < schedules.count)
    *schedules.rates[i] =
        static_cast<float>(static_cast<double>(*scale) * learning_rate(schedules.list[i], now));
}

}  // namespace

void advance_schedules(cudaStream_t stream, std::span<const LrSchedule> schedules, int64_t* step,
                       const float* scale, std::span<float* const> rates) {
  const auto count = static_cast<int64_t>(rates.size());
  int64_t done = 0;
  do {
    const int64_t by = done == 0 ? 1 : 0;
    Schedules some{};
    for (; done < count && some.count < kMaxSchedules; ++done, ++some.count) {
      some.list[some.count] = schedules[done];
      some.rates[some.count] = rates[done];
    }
    launch({.name = "advance_schedules", .block = dim3(kThreads), .stream = stream}, advance_kernel,
           some, step, by, scale);
  } while (done < count);
}

HLITE_KERNELS(advance_schedules) { list.add<advance_schedules>(kernels::advance_schedules); }

}  // namespace hlite::optimizer::gpu
