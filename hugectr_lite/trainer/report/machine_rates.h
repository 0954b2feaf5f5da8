// Rates that this machine reaches, measured in a moment: they give lower bounds of step times.
#pragma once

#include "hugectr_lite/core/exec.h"

namespace hlite::trainer {

struct MachineRates {
  double flops = 0;  // of a large matrix product in fp32, a second
  double bytes = 0;  // of a plain copy, read and written, a second
};

// On exec's threads; the best of `times`, with `copied` floats to copy (more than caches hold).
MachineRates measure_rates(const Exec& exec, int times, int64_t copied);

}  // namespace hlite::trainer
