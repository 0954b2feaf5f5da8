// Which ranks share a node: solver.gpu, a row of devices for each node, and device_layout.
//
//   LocalFirst  ranks are numbered node by node:            rank = node * ranks_per_node + local
//   NodeFirst   across nodes first (equal rows needed):     rank = local * nodes + node
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

class Topology {
 public:
  // `rows[n]`: ranks on node n, each at least 1. Throws CommError for unequal rows with node_first.
  explicit Topology(std::vector<int> rows, bool node_first = false);

  [[nodiscard]] int nodes() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(node_.size()); }
  [[nodiscard]] int ranks_on(int node) const { return rows_[static_cast<size_t>(node)]; }
  // Whether every node has as many ranks: what rails need.
  [[nodiscard]] bool uniform() const;
  [[nodiscard]] int node_of(int rank) const { return node_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int local_of(int rank) const { return local_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int rank_at(int node, int local) const {
    return rank_[static_cast<size_t>(node)][static_cast<size_t>(local)];
  }

 private:
  std::vector<int> rows_, node_, local_;
  std::vector<std::vector<int>> rank_;
};

}  // namespace hlite::comm
