// An iteration as data: a list of steps, each saying which buffers it reads and writes.
//
// Steps are added in plain sequential order. finalize() derives every dependency from the reads and
// writes, so two steps may overlap exactly when they are on different lanes and touch nothing in
// common that one of them writes. No code places events by hand. Executors (executor.h) run the
// same plan in order or with a thread a lane (CPU), or on a stream a lane, captured into a graph
// (CUDA).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/plan/buffers.h"

namespace hlite::plan {

// kWeights: gradients of weights, to overlap those of activations on a GPU.
enum class Lane { kCompute, kEmbedding, kComm, kWeights, kCopy };
inline constexpr int kLanes = 5;
const char* lane_name(Lane lane);

// A batch in host memory, as the copy-in step finds it.
struct HostInput {
  const float* labels = nullptr;           // [batch, label width]
  const float* dense = nullptr;            // [batch, dense width]
  const uint32_t* keys = nullptr;          // [batch, slots], local to the slot
  std::span<const std::byte> memory = {};  // the block that they lie in, to copy it as one
  const uint32_t* next_keys = nullptr;     // [next_batch, slots] of the next batch, if known
  int64_t next_batch = 0;
};

// Arguments of a step when it runs.
struct StepContext {
  Exec exec = {};         // set by the executor
  int64_t batch = 0;      // samples in this batch, at most what the buffers were sized for
  int64_t iteration = 0;  // training iteration, from 1; 0 in an evaluation
  HostInput input = {};
  // Set where the batch is one rank's part of a larger one: that one's samples, and the place in it
  // of this rank's first.
  int64_t global_batch = 0;
  int64_t first_row = 0;
  [[nodiscard]] int64_t mean_over() const { return global_batch > 0 ? global_batch : batch; }
};

// Bytes that a step sends to other ranks, on the same node and on others: in every run, and with
// each sample of its batch; what data decide is what is expected of them.
struct SentBytes {
  double in_node = 0, between = 0;
  double in_node_per_sample = 0, between_per_sample = 0;
  [[nodiscard]] bool any() const {
    return in_node + between + in_node_per_sample + between_per_sample > 0;
  }
};

// Those of a step's buffers that are there: without kNoBuffer.
inline std::vector<BufferId> present(std::vector<BufferId> ids) {
  std::erase(ids, kNoBuffer);
  return ids;
}

// Bytes that a step moves to and from a slower tier of memory: a disk or, for a GPU, the host.
struct TierBytes {
  double read_per_sample = 0, written_per_sample = 0;
  bool disk = false;   // the slower tier is a disk
  bool ahead = false;  // reads for the next batch overlap this one
  [[nodiscard]] bool any() const { return read_per_sample + written_per_sample > 0; }
};

struct Step {
  std::string name;
  Lane lane = Lane::kCompute;
  std::vector<BufferId> reads, writes;  // a buffer updated in place stands in both
  std::function<void(const StepContext&)> run = {};
  double flops_per_sample = 0;  // for the roofline in benchmarks; 0: negligible
  double bytes_per_sample = 0;  // main-memory traffic
  SentBytes sends = {};
  TierBytes tier = {};
  std::vector<int> after = {};  // derived: indices of the steps that must have ended
};

class Plan {
 public:
  explicit Plan(const Buffers& buffers) : buffers_(&buffers) {}

  void add(Step step);
  // Derives `after` (transitively reduced). Throws Error when a step reads a buffer of kind
  // activation or gradient that no earlier step wrote, unless it is empty: what a rank without rows
  // of its own has of them.
  void finalize();

  [[nodiscard]] std::span<const Step> steps() const { return steps_; }
  [[nodiscard]] const Buffers& buffers() const { return *buffers_; }
  // Index of the step of that name; throws Error when there is none.
  [[nodiscard]] int index_of(const std::string& name) const;
  // Returns true if the dependencies leave the two steps unordered and on different lanes.
  [[nodiscard]] bool may_overlap(int a, int b) const;
  // Lines of each step: index, lane, name, reads, writes, what it sends, after.
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] bool conflict(const Step& earlier, const Step& later) const;
  const Buffers* buffers_;
  std::vector<Step> steps_;
  std::vector<std::vector<bool>> before_;  // before_[b][a]: a must end before b starts
};

// Runs one step. A TimeoutError of it says which step and iteration it was.
void run_step(const Step& step, const StepContext& context);
// Runs the steps in the order in which they were added. When `seconds` is not empty (one entry a
// step) adds each step's time to it.
void run_in_order(const Plan& plan, const StepContext& context, std::span<double> seconds = {});

}  // namespace hlite::plan
