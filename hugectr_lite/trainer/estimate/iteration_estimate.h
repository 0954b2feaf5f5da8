// An estimate of the time that an iteration of a config takes on a machine that may not be here.
//
// The plan of rank 0 is made for that topology. Each step costs what machine.h says of its work:
//
//   on the device   step_seconds + max(FLOPs / rate of products, bytes / rate of memory)
//   an exchange     step_seconds + bytes / link + latency, in the node and then between nodes; an
//                   all-reduce has two of each
//
// and plan/schedule.h overlaps lanes as far as dependencies allow. A GPU's copy of the next batch
// overlaps the iteration. Rows from a slower tier cost their bytes over the bus or the disk's
// bandwidth; an iteration waits for them unless they were read ahead. Bytes of rows and gradients
// are those of the expected number of distinct rows.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/plan/schedule.h"
#include "hugectr_lite/plan/step_work.h"
#include "hugectr_lite/trainer/estimate/machine.h"
#include "hugectr_lite/trainer/model/placements.h"

namespace hlite::trainer {

// The things that may bound an iteration.
enum class Bound { kProducts, kMemory, kSteps, kInNode, kBetween, kHostCopy, kTiers };
inline constexpr int kBounds = 7;

struct EstimatedStep {
  std::string name;
  plan::Lane lane = plan::Lane::kCompute;
  plan::StepWork work;
  struct TierWork {  // bytes from a slower tier and to it
    double read = 0, written = 0;
    bool disk = false;
  } tier;
  bool ahead = false;  // plan::TierBytes
  double seconds = 0, end = 0;
  bool critical = false;
};

struct IterationEstimate {
  double seconds = 0;
  int64_t batch = 0;
  int ranks = 1;
  std::vector<EstimatedStep> steps;
  std::array<double, kBounds> on_path = {};  // seconds of the critical path, by what they go to
  double host_copy_seconds = 0;
  double tier_seconds = 0;  // rows that are read ahead or written back, overlapped
  double sample_bytes = 0;  // data per sample
  std::string keys;         // assumed frequencies of keys
  std::vector<std::string> placement, tiers;
  [[nodiscard]] Bound bound() const;
  [[nodiscard]] double samples_per_s() const { return static_cast<double>(batch) / seconds; }
};

struct EstimateSetup {
  AssumedKeys keys = AssumedKeys::kCountedElseCriteo;
  bool replicate = true;  // frequent rows, if the config does
  // Bytes of an element of rows, gradients and sums on links; 0: a GPU's as wide as its
  // activations, a CPU's 4 bytes.
  int wire_bytes = 0;
  bool all_in_memory = false;  // whatever solver.embedding_memory says
};

// `config` has the topology; a machine without a link that it needs is a ConfigError.
IterationEstimate estimate_iteration(const config::TrainConfig& config, const Machine& machine,
                                     const EstimateSetup& setup);

}  // namespace hlite::trainer
