#include "hugectr_lite/comm/expected_traffic.h"

#include <vector>

namespace hlite::comm {
namespace {

// bytes(q): what `rank` sends to rank q.
template <typename Bytes>
ExpectedBytes to_others(const Topology& topology, int rank, Bytes&& bytes) {
  ExpectedBytes sum;
  for (int q = 0; q < topology.ranks(); ++q)
    if (q != rank)
      (topology.node_of(q) == topology.node_of(rank) ? sum.intra : sum.inter) +=
          static_cast<double>(bytes(q));
  return sum;
}

size_t slice_size(int64_t count, int rank, int ranks) {
  return slice_of(static_cast<size_t>(count), rank, ranks).size();
}

ExpectedBytes flat_reduce_scatter(const Topology& topology, int rank, int64_t count) {
  return to_others(topology, rank,
                   [&](int q) { return slice_size(count, q, topology.ranks()) * sizeof(float); });
}

ExpectedBytes flat_gather(const Topology& topology, int rank, int64_t count, int64_t unit) {
  const size_t own = slice_size(count, rank, topology.ranks()) * static_cast<size_t>(unit);
  return to_others(topology, rank, [&](int) { return own; });
}

ExpectedBytes flat_all_reduce(const Topology& topology, int rank, AllReduce algo, int64_t count) {
  if (algo == AllReduce::kOneShot)
    return to_others(topology, rank, [&](int) { return count * int64_t{sizeof(float)}; });
  ExpectedBytes sum = flat_reduce_scatter(topology, rank, count);
  return sum += flat_gather(topology, rank, count, sizeof(float));
}

// The node and the rail of a rank, and the slice of `count` that the rail shares.
struct Rails {
  Rails(const Topology& topology, int rank, int64_t count)
      : node(topology.node_of(rank)), local(topology.local_of(rank)) {
    std::vector<int> in_node, along;
    for (int q = 0; q < topology.ranks(); ++q) {
      if (topology.node_of(q) == node) in_node.push_back(q);
      if (topology.local_of(q) == local) along.push_back(q);
    }
    intra = topology.part(in_node);
    rail = topology.part(along);
    slice = static_cast<int64_t>(slice_size(count, local, static_cast<int>(in_node.size())));
  }
  int node, local;
  Topology intra{{1}}, rail{{1}};
  int64_t slice = 0;
};

}  // namespace

ExpectedBytes all_reduce_bytes(const Topology& topology, int rank, Route route, AllReduce algo,
                               int64_t count) {
  if (route == Route::kFlat) return flat_all_reduce(topology, rank, algo, count);
  const Rails rails(topology, rank, count);
  ExpectedBytes sum = flat_all_reduce(rails.intra, rails.local, AllReduce::kTwoPhase, count);
  return sum += flat_all_reduce(rails.rail, rails.node, algo, rails.slice);
}

ExpectedBytes reduce_scatter_bytes(const Topology& topology, int rank, Route route, int64_t count) {
  if (route == Route::kFlat) return flat_reduce_scatter(topology, rank, count);
  const Rails rails(topology, rank, count);
  ExpectedBytes sum = flat_reduce_scatter(rails.intra, rails.local, count);
  return sum += flat_reduce_scatter(rails.rail, rails.node, rails.slice);
}

ExpectedBytes gather_slices_bytes(const Topology& topology, int rank, Route route, int64_t count,
                                  int64_t unit) {
  if (route == Route::kFlat) return flat_gather(topology, rank, count, unit);
  const Rails rails(topology, rank, count);
  ExpectedBytes sum = flat_gather(rails.intra, rails.local, count, unit);
  return sum += flat_gather(rails.rail, rails.node, rails.slice, unit);
}

ExpectedBytes all_gather_bytes(const Topology& topology, int rank, int64_t bytes) {
  return to_others(topology, rank, [&](int) { return bytes; });
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
