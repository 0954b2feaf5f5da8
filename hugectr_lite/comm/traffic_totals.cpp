#include "hugectr_lite/comm/traffic_totals.h"

namespace hlite::comm {

TrafficTotals& TrafficTotals::operator+=(const TrafficTotals& other) {
  intra_bytes += other.intra_bytes;
  inter_bytes += other.inter_bytes;
  intra_messages += other.intra_messages;
  inter_messages += other.inter_messages;
  intra_received += other.intra_received;
  inter_received += other.inter_received;
  return *this;
}

TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b) {
  a.intra_bytes -= b.intra_bytes;
  a.inter_bytes -= b.inter_bytes;
  a.intra_messages -= b.intra_messages;
  a.inter_messages -= b.inter_messages;
  a.intra_received -= b.intra_received;
  a.inter_received -= b.inter_received;
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
  for (int64_t* n : {&t.intra_bytes, &t.inter_bytes, &t.intra_messages, &t.inter_messages,
                     &t.intra_received, &t.inter_received})
    *n = *n / calls * runs;
  return t;
}

}  // namespace hlite::comm
