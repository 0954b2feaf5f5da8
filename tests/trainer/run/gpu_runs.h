// Whole runs on emulated GPUs inside the test, as run_training() makes them: quick enough for many,
// and what goes wrong in them can be planted.
#pragma once

#include <climits>

#include "hugectr_lite/trainer/run/session.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/cuda_emulation/cublasLt.h"
#include "tests/support/cuda_emulation/planted.h"
#include "tests/support/stream_order.h"

namespace hlite::test {

using Words = std::vector<std::string>;

// What the emulated machine has handed out.
struct HandedOut {
  int streams, events, device_blocks, pinned_blocks, registered_blocks, graphs, library_objects;
  size_t bytes;
  bool operator==(const HandedOut&) const = default;
};
inline HandedOut handed_out() {
  const auto& m = emulation::machine();
  return {m.streams,
          m.events,
          m.device_blocks,
          m.pinned_blocks,
          m.registered_blocks,
          m.graphs,
          emulation::matmul_library().objects,
          m.used_bytes};
}

struct GpuRun {
  int code = 0;
  std::string error;    // what was thrown
  std::string weights;  // the exported file
  bool operator==(const GpuRun&) const = default;
};

// The small model's, by default in 5 iterations: each side of the buffers eager, captured, and the
// first one's graph launched again.
class GpuRuns {
 public:
  explicit GpuRuns(int devices) : devices_(devices) {}

  [[nodiscard]] std::unique_ptr<config::TrainConfig> load(Words changes) const {
    const Words always = {"solver.eval_interval=0", "solver.display=100000",
                          "solver.algorithm_search=false"};
    changes.insert(changes.begin(), always.begin(), always.end());
    return config::load_train_config(files_ / "config.json", changes);
  }
  // Without `weights` none are looked at in the end.
  GpuRun train(Words changes, bool weights = true) const {
    const auto config = load(std::move(changes));
    GpuRun run;
    try {
      run.code = trainer::run_training(*config,
                                       {.threads = static_cast<int>(config->solver.ranks()),
                                        .export_path = weights ? exported_ : "",
                                        .quiet = true},
                                       &emulated_cuda());
      if (weights) run.weights = read_text(exported_);
    } catch (const Error& error) {
      run.code = error.exit_code();
      run.error = error.what();
    } catch (const std::exception& error) {
      run.code = kExitInternal;
      run.error = error.what();
    }
    return run;
  }

  // How many works (or those called `name`) come to GPU `device` in that iteration, and before it.
  struct Window {
    int before = 0, in = 0;
  };
  Window window(const Words& changes, int device, emulation::Planted::What what,
                const std::string& name, int iteration) const {
    const auto count = [&](int iterations) {
      emulation::plant({.what = what, .device = device, .name = name, .nth = INT_MAX});
      Words all = changes;
      all.push_back("solver.max_iter=" + std::to_string(iterations));
      const GpuRun run = train(all, false);
      const int counted = emulation::counted();
      emulation::plant({});
      INFO(run.error);
      REQUIRE(run.code == 0);
      return counted;
    };
    const int before = count(iteration - 1);
    return {before, count(iteration) - before};
  }

 private:
  const EmulatedDevices devices_;
  SmallRun files_;
  std::string exported_ = files_ / "weights.safetensors";
};

}  // namespace hlite::test
