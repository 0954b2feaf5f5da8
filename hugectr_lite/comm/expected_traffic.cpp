#include "hugectr_lite/comm/expected_traffic.h"

#include <vector>

namespace hlite::comm {
namespace {

ExpectedBytes flat_all_reduce(const Topology& topology, int rank, AllReduce algo, int64_t count) {
  ExpectedBytes sum;
  const auto slice = [&](int q) {
    return slice_of(static_cast<size_t>(count), q, topology.ranks()).size();
  };
  for (int q = 0; q < topology.ranks(); ++q) {
    if (q == rank) continue;
    const auto values =
        algo == AllReduce::kOneShot ? static_cast<size_t>(count) : slice(q) + slice(rank);
    (topology.node_of(q) == topology.node_of(rank) ? sum.intra : sum.inter) +=
        static_cast<double>(values * sizeof(float));
  }
  return sum;
}

}  // namespace

ExpectedBytes all_reduce_bytes(const Topology& topology, int rank, Route route, AllReduce algo,
                               int64_t count) {
  if (route == Route::kFlat) return flat_all_reduce(topology, rank, algo, count);
  const int node = topology.node_of(rank), local = topology.local_of(rank);
  std::vector<int> in_node, on_rail;
  for (int q = 0; q < topology.ranks(); ++q) {
    if (topology.node_of(q) == node) in_node.push_back(q);
    if (topology.local_of(q) == local) on_rail.push_back(q);
  }
  ExpectedBytes sum = flat_all_reduce(topology.part(in_node), local, AllReduce::kTwoPhase, count);
  const Slice own = slice_of(static_cast<size_t>(count), local, static_cast<int>(in_node.size()));
  return sum +=
         flat_all_reduce(topology.part(on_rail), node, algo, static_cast<int64_t>(own.size()));
}

ExpectedBytes all_gather_bytes(const Topology& topology, int rank, int64_t bytes) {
  ExpectedBytes sum;
  for (int q = 0; q < topology.ranks(); ++q)
    if (q != rank)
      (topology.node_of(q) == topology.node_of(rank) ? sum.intra : sum.inter) +=
          static_cast<double>(bytes);
  return sum;
}

ExpectedBytes all_to_all_bytes(const Topology& topology, int rank, Route route, BytesOfPair bytes) {
  ExpectedBytes sum;
  const int node = topology.node_of(rank), local = topology.local_of(rank);
  for (int q = 0; q < topology.ranks(); ++q) {
    const bool same_node = topology.node_of(q) == node, same_rail = topology.local_of(q) == local;
    if (route == Route::kFlat) {
      if (q != rank) (same_node ? sum.intra : sum.inter) += bytes(rank, q);
      continue;
    }
    // To the node's rank of q's rail; then, on its own rail, what all of the node have for q.
    if (!same_rail) sum.intra += bytes(rank, q);
    if (!same_rail || same_node) continue;
    for (int l = 0; l < topology.ranks_on(node); ++l)
      sum.inter += bytes(topology.rank_at(node, l), q);
  }
  return sum;
}

}  // namespace hlite::comm
