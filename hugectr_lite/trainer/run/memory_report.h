// The memory that a run will take, as --check prints it.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// The run that a report is about.
struct MemoryOfRun {
  const config::TrainConfig& config;
  const Model& model;
  int threads = 1;            // per rank
  int64_t eval_samples = 0;   // 0: no evaluation
  int64_t train_samples = 0;  // 0: unknown
};

// Bytes of host memory of one rank for batches that are read ahead, kept samples and scores.
int64_t bytes_outside_model(const MemoryOfRun& run);

// Table by table and kind by kind, of a run on the CPU or, where the model is made for one, on the
// current device. What is missing is added to `reasons`. Throws DeviceError when the device fails.
std::string memory_report(const MemoryOfRun& run, std::vector<std::string>& reasons);

}  // namespace hlite::trainer
