// train_bench's options, and its part for a GPU.
#pragma once

#include <string>

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
  // On a GPU.
  int64_t batches = 8;           // in host memory, used in turn
  double step_seconds = 0.03;    // how long one step is repeated
  int64_t gemm_edge = 8192;      // the ceilings' matrix product
  int64_t copy_bytes = 1 << 30;  // and copy
};

// Throws DeviceError where there is no GPU.
void run_on_gpu(const TrainBenchOptions& options);

}  // namespace hlite::bench
