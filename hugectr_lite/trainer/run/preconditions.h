// What can be found out about a run before it takes memory and time.
#pragma once

#include <string>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Whether a result can be put where `option` asked for it, found out before hours of training. An
// empty path: none was asked for. Throws ConfigError.
void check_can_write(const char* option, const std::string& path);

// The same of everything that the options and the config's snapshots ask for, each at a place of
// its own. Throws ConfigError, or DataError where something else is in the place of a checkpoint.
void check_places(const config::TrainConfig& config, const Options& options);

// Where the config wants the snapshot called that (its iteration): a path from its own directory.
std::string snapshot_path(const config::TrainConfig& config, const std::string& name);

// Whether a config goes on with the batches of the checkpoint in `directory`. Throws ConfigError.
void check_same_run(const config::TrainConfig& config, const checkpoint::CheckpointMeta& meta,
                    const std::string& directory);

}  // namespace hlite::trainer
