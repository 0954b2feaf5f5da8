// Learning-rate schedules whose pieces all fall into the first thirty steps.
#pragma once

#include <vector>

#include "hugectr_lite/optimizer/lr_schedule.h"

namespace hlite::test {

inline std::vector<optimizer::LrSchedule> some_schedules(size_t count) {
  std::vector<optimizer::LrSchedule> list;
  for (size_t i = 0; i < count; ++i) {
    const auto k = static_cast<int64_t>(i);
    list.push_back({.base = 0.1 + 0.01 * static_cast<double>(i),
                    .warmup_steps = 1 + k % 5,
                    .decay_start = k % 3 == 2 ? 0 : 8 + k,
                    .decay_steps = 9,
                    .decay_power = 1 + 0.5 * static_cast<double>(i % 4),
                    .end = 0.003});
  }
  return list;
}

}  // namespace hlite::test
