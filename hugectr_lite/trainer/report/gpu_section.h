// Power, clock and heat of the GPUs of a run: a section of its page.
#pragma once

#include <vector>

#include "hugectr_lite/trainer/report/gpu_monitor.h"
#include "hugectr_lite/trainer/report/page.h"

namespace hlite::trainer {

// Charts over the iterations, and a row for each GPU; "" if no GPU reported anything.
Json gpu_section(const std::vector<GpuEvent>& events);

}  // namespace hlite::trainer
