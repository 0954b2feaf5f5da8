// train_bench's options, and its part for a GPU.
#pragma once

#include <span>
#include <string>

#include "hugectr_lite/trainer/model/model.h"
#include "tests/bench/dlrm_workload.h"

namespace hlite::bench {

struct TrainBenchOptions {
  std::string shape_name;
  Shape shape;
  Solver solver;
  int threads = 1;
  int64_t cap = 0;
  double seconds = 5, alpha = 1.05;
  bool quiet = false;
  std::string machine;  // file for the rates that the steps reached; empty: none
  // On a GPU.
  bool eager = true;             // time iterations without a graph too
  int64_t batches = 8;           // in host memory, used in turn
  double step_seconds = 0.03;    // how long one step is repeated
  int64_t gemm_edge = 8192;      // the ceilings' matrix product
  int64_t copy_bytes = 1 << 30;  // and copy
};

// Throws DeviceError where there is no GPU.
void run_on_gpu(const TrainBenchOptions& options);

// Writes the rates that the training plan's steps reached (`step_seconds`, one each) to o.machine.
// `host_bytes_per_s`: of copies to the GPU, which are not counted then; 0 of a CPU.
void write_machine(const TrainBenchOptions& o, const trainer::Model& model,
                   std::span<const double> step_seconds, double host_bytes_per_s);

}  // namespace hlite::bench
