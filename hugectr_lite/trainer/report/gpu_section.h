// Power, clock and heat of the GPUs of a run: a section of its page.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/trainer/report/gpu_monitor.h"

namespace hlite::trainer {

// Charts over the iterations, and a row for each GPU; empty if no GPU reported anything.
std::string gpu_section(const std::vector<GpuEvent>& events);

}  // namespace hlite::trainer
