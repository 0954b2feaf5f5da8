// An all-to-all by the way that the config asks for, and what it has cost.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/hierarchical_exchange.h"
#include "hugectr_lite/comm/topology.h"

namespace hlite::comm {

// A rank's place in a run. `world` is null where nothing is exchanged: a run of one rank, or a
// model that is only looked at (--check).
struct RankContext {
  int rank = 0;
  std::shared_ptr<const Topology> topology = std::make_shared<Topology>(std::vector<int>{1});
  Communicator* world = nullptr;
  [[nodiscard]] int ranks() const { return topology->ranks(); }
};

// Bytes and messages that one rank sent, and bytes that it got, within its node and between nodes.
struct TrafficTotals {
  int64_t intra_bytes = 0, inter_bytes = 0, intra_messages = 0, inter_messages = 0;
  int64_t intra_received = 0, inter_received = 0;  // bytes
  TrafficTotals& operator+=(const TrafficTotals& other);
  friend TrafficTotals operator-(TrafficTotals a, const TrafficTotals& b);
};
// Of a communicator whose ranks are those of the topology.
TrafficTotals totals_of(const Communicator& world, const Topology& topology);

// What a rank has exchanged in one step of a plan.
struct StepTraffic {
  std::string step;
  TrafficTotals totals;
};

class RowExchange {
 public:
  // Collective. `hierarchical`: through HierarchicalExchange, which needs as many ranks on every
  // node (CommError). `ranks.world` may be null; then run() must not be called.
  RowExchange(const RankContext& ranks, bool hierarchical, size_t block_capacity);

  // As Communicator::all_to_all_v().
  void run(std::span<const ConstBytes> send, std::span<const Bytes> receive,
           std::span<size_t> received);
  // The most bytes that any rank sends to any one rank; agreed by all, between calls.
  void set_block_capacity(size_t bytes);
  // What this exchange alone has sent.
  [[nodiscard]] const TrafficTotals& traffic() const { return traffic_; }

 private:
  [[nodiscard]] TrafficTotals so_far() const;

  const RankContext ranks_;
  std::unique_ptr<HierarchicalExchange> hierarchical_;
  TrafficTotals traffic_;
};

}  // namespace hlite::comm
