// A rank's place in a run.
#pragma once

#include <memory>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

class DeviceCommunicator;

// `world` is null where nothing is exchanged: a run of one rank, or a model that is only looked at
// (--check). Its topology is `topology`. `devices`: of the same ranks, where they are GPUs; then
// `world` is for what hosts tell each other.
struct RankContext {
  int rank = 0;
  std::shared_ptr<const Topology> topology = std::make_shared<Topology>(std::vector<int>{1});
  Communicator* world = nullptr;
  DeviceCommunicator* devices = nullptr;
  [[nodiscard]] int ranks() const { return topology->ranks(); }

  // Collective. What a step of a plan exchanges by, which counts what it sends; among GPUs every
  // route is flat. Null without a world of several ranks: the step must then not run.
  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(Route route) const;
};

}  // namespace hlite::comm
