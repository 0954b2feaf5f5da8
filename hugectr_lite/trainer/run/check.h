// `train --check` and `train --plan`: what a run would be, without running it.
#pragma once

#include <string>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// The layer table, the memory a run will take (of the GPU, where it would run on one), the data
// files and the topology, then a verdict. A file that is there and contradicts the config is a
// DataError; what this machine merely lacks (a file, memory, a GPU) is listed as a reason why the
// run would not start here.
std::string check_report(const config::TrainConfig& config, const Options& options);

// Steps, lanes and dependencies of the training plan and of the evaluation plan; on a GPU where the
// run would be on one, here or not.
std::string plan_report(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
