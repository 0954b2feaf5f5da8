// The memory that a run will take, as --check prints it.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/trainer/model/run_memory.h"

namespace hlite::trainer {

// Table by table and kind by kind, of a run on the CPU or, where the model is made for one, on the
// current device. What is missing is added to `reasons`. Throws DeviceError when the device fails.
std::string memory_report(const MemoryOfRun& run, std::vector<std::string>& reasons);

}  // namespace hlite::trainer
