#include "hugectr_lite/comm/row_exchange.h"

#include <numeric>

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

TrafficTotals totals_of(const Communicator& world, const Topology& topology) {
  TrafficTotals sum;
  const Traffic& traffic = world.traffic();
  for (size_t q = 0; q < traffic.bytes.size(); ++q) {
    const bool intra = topology.node_of(static_cast<int>(q)) == topology.node_of(world.rank());
    (intra ? sum.intra_bytes : sum.inter_bytes) += traffic.bytes[q];
    (intra ? sum.intra_messages : sum.inter_messages) += traffic.messages[q];
    (intra ? sum.intra_received : sum.inter_received) += traffic.received_bytes[q];
  }
  return sum;
}

RowExchange::RowExchange(const RankContext& ranks, bool hierarchical, size_t block_capacity)
    : ranks_(ranks) {
  if (hierarchical && ranks.world)
    hierarchical_ =
        std::make_unique<HierarchicalExchange>(*ranks.world, *ranks.topology, block_capacity);
}

TrafficTotals RowExchange::so_far() const {
  if (!hierarchical_) return totals_of(*ranks_.world, *ranks_.topology);
  const auto sum = [](const std::vector<int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), int64_t{0});
  };
  const Traffic &intra = hierarchical_->intra().traffic(), &rail = hierarchical_->rail().traffic();
  return {sum(intra.bytes),   sum(rail.bytes),           sum(intra.messages),
          sum(rail.messages), sum(intra.received_bytes), sum(rail.received_bytes)};
}

void RowExchange::run(std::span<const ConstBytes> send, std::span<const Bytes> receive,
                      std::span<size_t> received) {
  const TrafficTotals before = so_far();
  if (hierarchical_)
    hierarchical_->all_to_all_v(send, receive, received);
  else
    ranks_.world->all_to_all_v(send, receive, received);
  traffic_ += so_far() - before;
}

void RowExchange::set_block_capacity(size_t bytes) {
  if (hierarchical_) hierarchical_->set_block_capacity(bytes);
}

}  // namespace hlite::comm
