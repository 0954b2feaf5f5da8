// Starts the ranks of a run and trains on them: threads of this process, or under mpirun a process
// for each node of solver.gpu with a thread for each of its ranks.
#pragma once

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Returns the exit code (kExitDone, kExitInterrupted). When a rank throws, all others end and its
// error is thrown here; under mpirun it is printed once and ends all processes (exit code 4).
int run_training(const config::TrainConfig& config, const Options& options);
// The same on GPUs of that backend, or on the CPU where it is null.
int run_training(const config::TrainConfig& config, const Options& options,
                 const cuda::Backend* gpu);

}  // namespace hlite::trainer
