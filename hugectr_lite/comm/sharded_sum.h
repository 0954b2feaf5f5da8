// The two halves of an all-reduce, for work on a part of the sums between them: each rank gets the
// sums of its part, and later all get every rank's part of what it has made of them.
//
// By rails: in the node, then along the rail, as HierarchicalCommunicator sums; so the sums are,
// bit for bit, those of an all-reduce on the same route.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/comm/expected_traffic.h"
#include "hugectr_lite/comm/rank_context.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::comm {

class ShardedSum {
 public:
  // Collective when ranks.world is given; without it nothing may be summed. `route`: one that is
  // possible(). Throws CommError for kHierarchical when nodes have different numbers of ranks.
  ShardedSum(const RankContext& ranks, Route route);

  // The part of n things that rank `rank` has.
  [[nodiscard]] Slice part_of(size_t n, int rank) const;
  // mine <- the sum over ranks of this rank's part of the words (communicator.h) of `all`.
  void reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                      size_t pairs);
  // Every rank's part of all / unit things <- that of the rank; this one's lies in place.
  void all_gather(const Exec& exec, Bytes all, size_t unit);

  // Traffic that the calls of each kind have sent and received.
  [[nodiscard]] TrafficTotals reduce_traffic() const { return reduced_; }
  [[nodiscard]] TrafficTotals gather_traffic() const { return gathered_; }
  // Bytes that a call is going to send: `count` words, or things of `unit` bytes.
  [[nodiscard]] ExpectedBytes reduce_bytes(int64_t count) const;
  [[nodiscard]] ExpectedBytes gather_bytes(int64_t count, int64_t unit) const;

 private:
  [[nodiscard]] Slice slice_in_node(size_t n, int rank) const;
  std::span<float> slice_of_sums(const Exec& exec, size_t n);
  [[nodiscard]] TrafficTotals traffic() const;

  const RankContext ranks_;
  const Route route_;
  std::unique_ptr<Communicator> flat_;          // or
  std::unique_ptr<Communicator> intra_, rail_;  // by rails
  std::vector<float> slice_;                    // that the rail sums: on the CPU, or
  DeviceMemory device_slice_;
  TrafficTotals reduced_, gathered_;
};

}  // namespace hlite::comm
