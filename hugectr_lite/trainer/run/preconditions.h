// Checks of a run that are possible before it takes memory and time.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// The files that a run reads, as far as they are there: config, data with their manifests, the
// files of a checkpoint or weights.
std::vector<NamedPath> input_files(const config::TrainConfig& config, const Options& options);

// Returns warnings of inputs that are both in the config's folder and in the working directory.
std::vector<std::string> path_warnings(const config::TrainConfig& config);

// Compares the config with that of the checkpoint in --resume, whose manifest is `meta`
// (resume_keys.h). Throws ConfigError for a key that a resumed run cannot change, and logs what else
// is not the same. Returns true if what evaluations have led to holds no more.
bool check_same_run(const config::TrainConfig& config, const checkpoint::CheckpointMeta& meta,
                    const Options& options);

// Counts the rows that each rank gets of the hash tables in --resume or --init. Throws ConfigError,
// with a size that is enough, where a rank has too few rows for them; warns where rows are displaced
// then (`when_full`).
void check_rows_fit(const config::TrainConfig& config, const Options& options);

}  // namespace hlite::trainer
