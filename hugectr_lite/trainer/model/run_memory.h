// The memory that a run takes, in bytes: the model, and what is kept outside of it.
#pragma once

#include <cstdint>
#include <string>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// The run that the numbers are about.
struct MemoryOfRun {
  const config::TrainConfig& config;
  const Model& model;
  int threads = 1;            // per rank
  int64_t eval_samples = 0;   // 0: no evaluation
  int64_t train_samples = 0;  // 0: unknown
};

// The run of a config, with the samples of its files as far as those can be read.
MemoryOfRun memory_of_run(const config::TrainConfig& config, const Model& model, int threads);

// Bytes of the rows of tables, with their optimizer states, that rank `rank` owns; that all ranks of
// a machine own, if all machines have equally many ranks.
int64_t row_bytes_of(const Model& model, int rank);
int64_t row_bytes_here(const Model& model);
// Bytes of host memory of one rank for batches that are read ahead, kept samples and scores.
int64_t bytes_outside_model(const MemoryOfRun& run);
// Bytes of host memory that all ranks of this machine take together.
int64_t host_bytes_here(const MemoryOfRun& run);
// Says that this is more than `available` bytes, and what to write for a run that takes less; empty:
// it is not.
std::string host_shortage(const MemoryOfRun& run, int64_t available);

}  // namespace hlite::trainer
