#include "hugectr_lite/optimizer/advance_schedules.h"

#include "hugectr_lite/core/error.h"

namespace hlite::optimizer {

void advance_schedules(const Exec& exec, std::span<const LrSchedule> schedules, int64_t* step,
                       const float* scale, std::span<float* const> rates) {
  HLITE_CHECK(schedules.size() == rates.size(), "{} schedules, {} rates", schedules.size(),
              rates.size());
  HLITE_CHECK(step && scale, "advance_schedules: step and scale must not be null");
  if (exec.on_gpu()) return kernels::advance_schedules(exec, schedules, step, scale, rates);
  ++*step;
  for (size_t i = 0; i < rates.size(); ++i)
    *rates[i] =
        static_cast<float>(static_cast<double>(*scale) * learning_rate(schedules[i], *step));
}

}  // namespace hlite::optimizer
