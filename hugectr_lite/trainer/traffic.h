// What the ranks of a run send to each other, and what they would send if every table lay whole on
// one rank and nothing was copied or left out.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/trainer/model.h"

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

  // A table for people: mean of an iteration, all ranks together, then each rank's.
  [[nodiscard]] std::string text() const;
  // {"iterations":..,"steps":[{"step":..,"intra_bytes":..,...}],"plain":{...},"ranks":[...]}, means
  // of an iteration.
  [[nodiscard]] std::string json() const;
};

// What a plain model-parallel embedding sends in one iteration of `batch` samples: table s lies on
// rank s mod ranks, which sends the vectors of all samples of its slots to the samples' ranks and
// gets their gradients back. Keys are read by every rank and not sent.
TrafficRow plain_traffic(const Model& model, const comm::Topology& topology, int64_t batch);

// Collective. What was exchanged in `iterations` training iterations of `batch` samples: all that
// the model has exchanged less `without`, which it did elsewhere. The result is the same on all.
TrafficReport collect_traffic(const Exec& exec, const Model& model, const comm::RankContext& ranks,
                              const std::vector<StepTraffic>& without, int64_t iterations,
                              int64_t batch);

}  // namespace hlite::trainer
