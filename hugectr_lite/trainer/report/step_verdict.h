// The time of a run in words: which step, how far from its lower bound, what to change.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/trainer/report/machine_rates.h"
#include "hugectr_lite/trainer/report/run_record.h"

namespace hlite::trainer {

enum class StepBound { kProducts, kMemory, kExchange, kNothing };

struct StepVerdict {
  StepBound bound = StepBound::kNothing;
  double lower_bound_seconds = 0;  // at the machine's rates; of an exchange unknown: 0
  std::string words;
};
// `iteration`: seconds of all steps.
StepVerdict verdict_of(const StepTime& step, const MachineRates& rates, double iteration);

struct RunVerdict {
  std::string bound, change;
};
// `wait_share`: of the training time, spent waiting for data.
RunVerdict verdict_of(const std::vector<StepTime>& steps, const MachineRates& rates,
                      double wait_share);

}  // namespace hlite::trainer
