// The golden runs on several emulated GPUs, compared with ranks of the CPU.
#pragma once

#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {

using Words = std::vector<std::string>;

inline const Words kFourGpus = {"/usr/bin/env",
                                std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN,
                                "HLITE_EMULATED_DEVICES=4"};

inline const Words kEightGpus = {"/usr/bin/env",
                                 std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN,
                                 "HLITE_EMULATED_DEVICES=8"};

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Words changes_of(const Words& changes) {
  Words words;
  for (const std::string& change : changes) words = words + Words{"--set", change};
  return words;
}

// Of nodes that a golden run's exchange may go between.
inline constexpr const char* kBetween =
    "layers.embedding.sparse_embedding_hparam.communication_type=IB_NVLink";
inline Words on_ranks(const std::string& rows, Words more = {}) {
  more.push_back(gpu(rows));
  if (rows.find("],[") != std::string::npos) more.emplace_back(kBetween);
  return changes_of(more);
}

// A golden run's first iterations, on GPUs or ranks of the CPU; what it exported.
class Golden {
 public:
  explicit Golden(const std::string& name) : run_(name) {}

  ProgramResult train(const Words& environment, const std::string& device, const Words& more) {
    return run_program(environment +
                       Words{HLITE_TRAIN, "--config", run_ / "config.json", "--init",
                             run_ / "init.safetensors", "--threads", "1", "--device", device} +
                       more);
  }
  Tensors weights(const Words& environment, const std::string& device, const Words& more,
                  int iterations = 20) {
    REQUIRE(train(environment, device,
                  Words{"--quiet", "--export", run_ / "got.safetensors", "--set",
                        "solver.max_iter=" + std::to_string(iterations), "--set",
                        "solver.eval_interval=0"} +
                      more)
                .code == 0);
    return read_weights(run_ / "got.safetensors");
  }
  [[nodiscard]] Tensors expected() const { return read_weights(run_ / "weights_20.safetensors"); }
  [[nodiscard]] std::string operator/(const std::string& file) const { return run_ / file; }

 private:
  GoldenRun run_;
};

inline void check_weights(const Tensors& got, const Tensors& want, double tolerance = 1e-5) {
  check_close_tensors(got, want, tolerance);
}

// The part of a traffic event that is of rows' exchanges.
inline std::string of_embedding(const nlohmann::json& traffic) {
  std::string text;
  for (const auto& step : traffic["steps"])
    if (step["step"].get<std::string>().ends_with("_exchange")) text += step.dump() + "\n";
  return text;
}

// Numbers 1, 2, ... as HLITE_EMULATED_STREAMS: the orders of work that the test tries.
inline std::string order_of(int seed) {
  return "HLITE_EMULATED_STREAMS=random:" + std::to_string(seed);
}

}  // namespace hlite::test
