// A rank's place in a run.
#pragma once

#include <memory>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

class DeviceCommunicator;

// `world` is null where nothing is exchanged: a run of one rank, or a model that is only looked at
// (--check). Its topology is `topology`. `devices`: of the same ranks, where they are GPUs; then
// `world` is for messages between hosts.
struct RankContext {
  int rank = 0;
  std::shared_ptr<const Topology> topology = std::make_shared<Topology>(std::vector<int>{1});
  Communicator* world = nullptr;
  DeviceCommunicator* devices = nullptr;
  [[nodiscard]] int ranks() const { return topology->ranks(); }

  // The way of that kind that these ranks, or with `gpu` their GPUs, have between them: among GPUs
  // of one process every route is flat.
  [[nodiscard]] Route possible(Route wanted, bool gpu) const;
  // Collective. What a step of a plan exchanges by, which counts what it sends; of possible(route).
  // Null without a world of several ranks: the step must then not run.
  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(Route route) const;
  // Collective. Of the ranks that gave the same colour, as Communicator::split(). REQUIRES a world.
  [[nodiscard]] std::unique_ptr<Communicator> split(int colour) const;
};

}  // namespace hlite::comm
