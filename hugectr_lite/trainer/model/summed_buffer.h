// SummedBuffer: gradients that one all-reduce sums over ranks. They travel in float or bf16
// (solver.wire_precision); floats that go with them (RunStatus) travel as they are.
#pragma once

#include <functional>
#include <string>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/plan/plan.h"
#include "hugectr_lite/trainer/model/step_communicator.h"

namespace hlite::trainer {

// Options of the gradient all-reduce. GPUs always use two phases.
struct SumOptions {
  SumOptions(const comm::RankContext& ranks, const config::TrainConfig& config, bool gpu);
  comm::AllReduce algorithm;
  comm::Route route;
  FloatType wire;
};

class SummedBuffer {
 public:
  SummedBuffer(const comm::RankContext& ranks, const SumOptions& options)
      : ranks_(ranks), options_(options) {}

  // Sizes of buffers, so that each begins on a cache line.
  [[nodiscard]] static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  // Declares `bytes` of gradients in float, a multiple of 64, followed by `words` floats.
  void declare(plan::Buffers& buffers, const std::string& name, int64_t bytes, int64_t words = 0);
  [[nodiscard]] plan::BufferId gradients() const { return gradients_; }
  // The floats.
  [[nodiscard]] plan::BufferId words() const { return words_; }

  // Adds `step` on the comm lane, with these buffers among its reads and writes. Its `run` calls
  // sum(). Collective.
  void emit(plan::Plan& plan, plan::Step step);
  void sum(const Exec& exec);

  // Bytes of that many gradients as they travel.
  [[nodiscard]] int64_t wire_bytes(int64_t bytes) const {
    return bytes / kFloatBytes * float_type_bytes(options_.wire);
  }
  // Bytes that a sum sends for all that travels.
  [[nodiscard]] int64_t sent_bytes() const { return buffers_->bytes(travels()); }
  // The share that `bytes` of them have in the traffic of `runs` runs.
  [[nodiscard]] comm::TrafficTotals traffic(int64_t runs, int64_t bytes) const;

 private:
  [[nodiscard]] bool narrow() const { return wire_ != plan::kNoBuffer; }
  [[nodiscard]] plan::BufferId travels() const { return narrow() ? wire_ : gradients_; }

  const comm::RankContext ranks_;
  const SumOptions options_;
  const plan::Buffers* buffers_ = nullptr;
  plan::BufferId gradients_ = plan::kNoBuffer, words_ = plan::kNoBuffer;
  plan::BufferId wire_ = plan::kNoBuffer;  // bf16 copy of the gradients, sent in their place
  std::unique_ptr<StepCommunicator> communicator_;
};

}  // namespace hlite::trainer
