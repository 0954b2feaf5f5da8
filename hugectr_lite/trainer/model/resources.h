// The resources that a run uses of its machine: device, threads, randomness, instructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/backend.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// Why a GPU cannot train the config yet; empty: it can.
std::string needs_cpu(const config::TrainConfig& config);
// The number of the GPU that a rank trains on.
int gpu_of(const config::SolverConfig& solver, const comm::RankContext& rank);
// Returns the GPU to train on, or null for the CPU, as `device` (--device) or else solver.device
// says. "auto" takes a GPU if there is one that can train the config. Throws DeviceError if the
// requested device is not there or cannot train it.
const cuda::Backend* choose_device(const config::TrainConfig& config,
                                   std::optional<config::DeviceChoice> device);
// Returns the backend of a GPU that is not here: a model made with it has a GPU's sizes, its
// workspaces estimated. Nothing else in it can be called.
const cuda::Backend& absent_gpu();

// Ranks that share the memory of this machine: as threads of this process all of them.
int64_t ranks_here(const config::SolverConfig& solver);

// The seed of a run: the config's, or one drawn from the system where that is 0.
uint64_t resolve_seed(const config::TrainConfig& config);
// A number from the system, below 2^63.
uint64_t random_word();
// Threads of a run: `threads` (--threads) if it is not 0, else solver.threads, else all that this
// process may use.
int resolve_threads(const config::TrainConfig& config, int threads);
// Says what is wrong with running `threads` in a process that may use `allowed` processors, of
// `all` that the machine has for `processes` under mpirun (0: not under it); empty: nothing.
std::string processors_warning(int threads, int allowed, int processes, int all);
// The same of this process.
std::string processors_warning(const config::TrainConfig& config, int threads);

// Says what a model in 16 bits on the CPU computes in, and what is gained by that here; empty for
// others.
std::string precision_text(const Model& model);

}  // namespace hlite::trainer
