// The memory that a run will take, as --check prints it.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model/model.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// The run that a report is about.
struct MemoryOfRun {
  const config::TrainConfig& config;
  const Model& model;
  int threads = 1;            // per rank
  int64_t eval_samples = 0;   // 0: no evaluation
  int64_t train_samples = 0;  // 0: unknown
};

// The run of a config, with the samples of its files as far as those can be read.
MemoryOfRun memory_of_run(const config::TrainConfig& config, const Options& options,
                          const Model& model, int threads);

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

// Table by table and kind by kind, of a run on the CPU or, where the model is made for one, on the
// current device. What is missing is added to `reasons`. Throws DeviceError when the device fails.
std::string memory_report(const MemoryOfRun& run, std::vector<std::string>& reasons);

}  // namespace hlite::trainer
