// Traffic between the ranks of a run, and what they would send if every table lay whole on one rank
// and nothing was replicated or left out.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/trainer/model/model.h"

namespace hlite::trainer {

// A step's traffic over all ranks.
struct TrafficRow {
  std::string step;
  std::vector<comm::TrafficTotals> of_rank;  // [ranks]
  [[nodiscard]] comm::TrafficTotals sum() const;
};

struct TrafficReport {
  int64_t iterations = 0;
  std::vector<TrafficRow> steps;
  TrafficRow plain;  // of the plain model-parallel embedding, in one iteration
  // [ranks] bytes of samples from host memory to each rank's GPU; empty on the CPU.
  std::vector<int64_t> host_to_device = {};

  // A table for people: mean of an iteration, all ranks together, then each rank's.
  [[nodiscard]] std::string text() const;
  // {"iterations":..,"steps":[{"step":..,"intra_bytes":..,...}],"plain":{...},"ranks":[...]}, means
  // of an iteration; on GPUs also "host_to_device_bytes":[..], of each rank.
  [[nodiscard]] std::string json() const;
};

// Returns what a plain model-parallel embedding sends in one iteration of `batch` samples: table s
// lies on rank s mod ranks, which sends the vectors of all samples of its slots to the samples'
// ranks and gets their gradients back. Keys are read by every rank and not sent.
TrafficRow plain_traffic(const Model& model, const comm::Topology& topology, int64_t batch);

// Data that a model has exchanged and copied in so far, or in a part of its runs.
struct ModelTraffic {
  std::vector<StepTraffic> steps = {};
  int64_t host_to_device = 0;  // bytes
};
ModelTraffic model_traffic(const Model& model);

// Collective. What was moved in `iterations` training iterations of `batch` samples: all that the
// model has moved less `without`, which it did elsewhere. The result is the same on all.
TrafficReport collect_traffic(const Exec& exec, const Model& model, const comm::RankContext& ranks,
                              const ModelTraffic& without, int64_t iterations, int64_t batch);

}  // namespace hlite::trainer
