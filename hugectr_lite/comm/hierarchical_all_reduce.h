// The all-reduce of a topology with several ranks on several nodes: each rank sums one slice over
// its node, the ranks of a rail sum it over the nodes, and the node's ranks hand the slices around.
// Between nodes every value travels 2 (nodes - 1) / nodes times a node, whatever the ranks on it; a
// flat all-reduce sends it once for each rank.
//
// Sums are taken in the order of local ranks, then of nodes: the same bits every time, though not
// those of Communicator::all_reduce().
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "hugectr_lite/comm/row_exchange.h"

namespace hlite::comm {

class HierarchicalAllReduce {
 public:
  // Whether there is anything to gain: several nodes with equally many ranks, more than one.
  static bool suits(const Topology& topology);

  // Collective; REQUIRES suits().
  explicit HierarchicalAllReduce(const RankContext& ranks);
  // values[i] <- sum over all ranks. `algo`: of the sum over nodes.
  void run(std::span<float> values, AllReduce algo);
  [[nodiscard]] TrafficTotals traffic() const;

 private:
  std::unique_ptr<Communicator> intra_, rail_;
  std::vector<float> slice_;  // grows once
  std::vector<ConstBytes> send_;
  std::vector<size_t> most_;
};

}  // namespace hlite::comm
