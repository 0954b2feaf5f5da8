// A report of how the GPUs of a run reach each other, for people.
#pragma once

#include <string>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/trainer/run/options.h"
#include "hugectr_lite/trainer/run/progress.h"

namespace hlite::trainer {

// At the start of a run on several GPUs: their links, and a warning where some are slow.
void report_links(const cuda::Backend& gpu, const comm::DeviceCommunicator& ranks,
                  Progress& progress);

// `train --links`: the links of the config's GPUs with their rates, measured now; takes 16 MB of
// each for a moment, and trains nothing. Throws DeviceError where there are no such GPUs.
std::string links_report(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
