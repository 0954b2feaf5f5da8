// Readable reports of the links between a run's GPUs: NVLink, PCIe ("bus") or none.
#pragma once

#include <string>

#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/trainer/report/progress.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Prints the links at the start of a run on several GPUs, and a warning if some are slow.
void report_links(const cuda::Backend& gpu, const comm::DeviceCommunicator& ranks,
                  Progress& progress);

// Returns the output of `train --links`: the links between the config's GPUs and their bandwidth in
// GB/s. Measuring it takes 16 MiB of each GPU's memory meanwhile. Trains nothing. Throws
// ConfigError if the device is the CPU, DeviceError if a GPU is missing.
std::string links_report(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
