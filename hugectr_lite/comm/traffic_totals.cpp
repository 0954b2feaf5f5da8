#include "hugectr_lite/comm/traffic_totals.h"

namespace hlite::comm {

TrafficTotals& TrafficTotals::operator+=(const TrafficTotals& other) {
  for (const TrafficCount& n : kTrafficCounts) this->*n.at += other.*n.at;
  return *this;
}

TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b) {
  for (const TrafficCount& n : kTrafficCounts) a.*n.at -= b.*n.at;
  return a;
}

TrafficTotals rail_traffic(const Topology& topology, int rank, int64_t calls,
                           FunctionRef<int64_t(int from, int to)> bytes) {
  constexpr int64_t kSizeBytes = 8;
  const int node = topology.node_of(rank), own = topology.local_of(rank),
            locals = topology.ranks_on(node);
  TrafficTotals t;
  for (int l = 0; l < locals; ++l) {
    if (l == own) continue;
    const int peer = topology.rank_at(node, l);
    t.intra_messages += calls;
    for (int d = 0; d < topology.nodes(); ++d) {
      t.intra_bytes += kSizeBytes * calls + bytes(rank, topology.rank_at(d, l));
      t.intra_received += kSizeBytes * calls + bytes(peer, topology.rank_at(d, own));
    }
  }
  for (int d = 0; d < topology.nodes(); ++d) {
    if (d == node) continue;
    t.inter_messages += calls;
    for (int l = 0; l < locals; ++l) {
      t.inter_bytes +=
          kSizeBytes * calls + bytes(topology.rank_at(node, l), topology.rank_at(d, own));
      t.inter_received += kSizeBytes * calls + bytes(topology.rank_at(d, l), rank);
    }
  }
  return t;
}

TrafficTotals scaled(TrafficTotals t, int64_t runs, int64_t calls) {
  for (const TrafficCount& n : kTrafficCounts) t.*n.at = t.*n.at / calls * runs;
  return t;
}

}  // namespace hlite::comm
