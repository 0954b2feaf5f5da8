// Facts that processes of one run must have in common.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/comm/identity_text.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Identifies the run of this process by program, device, instructions, options, every value of the
// config but solver.threads, and a sample of the bytes of data, weights and checkpoint. Throws
// FileError for files that cannot be read.
comm::RunIdentity run_identity(const config::TrainConfig& config, const Options& options, bool gpu);

}  // namespace hlite::trainer
