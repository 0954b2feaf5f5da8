// Which ranks share a node: solver.gpu, a row of devices for each node, and device_layout.
//
//   LocalFirst  ranks are numbered node by node:            rank = node * ranks_per_node + local
//   NodeFirst   across nodes first (equal rows needed):     rank = local * nodes + node
#pragma once

#include <span>
#include <vector>

namespace hlite::comm {

class Topology {
 public:
  // `rows[n]`: ranks on node n, each at least 1. Throws CommError for unequal rows with node_first.
  explicit Topology(const std::vector<int>& rows, bool node_first = false);

  [[nodiscard]] int nodes() const { return static_cast<int>(rank_.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(node_.size()); }
  [[nodiscard]] int ranks_on(int node) const {
    return static_cast<int>(rank_[static_cast<size_t>(node)].size());
  }
  // Returns true if every node has as many ranks, which rails need.
  [[nodiscard]] bool uniform() const;
  // Returns true if rails make an all-reduce send less between nodes: several uniform nodes of
  // several ranks.
  [[nodiscard]] bool rails_pay() const { return nodes() > 1 && uniform() && ranks_on(0) > 1; }
  [[nodiscard]] int node_of(int rank) const { return node_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int local_of(int rank) const { return local_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int rank_at(int node, int local) const {
    return rank_[static_cast<size_t>(node)][static_cast<size_t>(local)];
  }
  // Returns the topology of these ranks alone, numbered as they are listed. Nodes that none of them
  // is on are left out.
  [[nodiscard]] Topology part(std::span<const int> ranks) const;

 private:
  Topology() = default;
  void add(int node);  // the next rank

  std::vector<int> node_, local_;
  std::vector<std::vector<int>> rank_;
};

}  // namespace hlite::comm
