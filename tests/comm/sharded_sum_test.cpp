#include "hugectr_lite/comm/sharded_sum.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using comm::Communicator;
using comm::RankContext;
using comm::Route;
using comm::ShardedSum;
using comm::Slice;
using comm::Topology;

void require_sent(const Communicator& c, const comm::TrafficTotals& counted,
                  const comm::ExpectedBytes& expected) {
  require(static_cast<double>(counted.intra_bytes) == expected.intra &&
              static_cast<double>(counted.inter_bytes) == expected.inter,
          "number of bytes sent", c, counted.intra_bytes + counted.inter_bytes);
}

// The bits of an all-reduce on the same route, part by part, and back to all.
void check_halves(Communicator& world, Route route, size_t pairs, size_t floats) {
  RankExec exec(world);
  const RankContext ranks{.rank = world.rank(),
                          .topology = std::make_shared<Topology>(world.topology()),
                          .world = &world};
  ShardedSum sum(ranks, route);
  const auto whole = world.copy(route);
  auto want = packed_values(world.rank(), pairs, floats);
  whole->all_reduce(exec, want, comm::AllReduce::kTwoPhase, pairs);
  const size_t n = want.size();
  const Slice own = sum.part_of(n, world.rank());
  std::vector<float> mine(own.size()), all(n, -1);
  sum.reduce_scatter(exec, packed_values(world.rank(), pairs, floats), mine, pairs);
  require(same_bits(mine, std::span(want).subspan(own.begin, own.size())), "half of a sum", world,
          static_cast<int64_t>(n));
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<int64_t>(own.begin));
  sum.all_gather(exec, std::as_writable_bytes(std::span(all)), sizeof(float));
  require(same_bits(all, want), "gathered sum", world, static_cast<int64_t>(n));
  const auto count = static_cast<int64_t>(n);
  require_sent(world, sum.reduce_traffic(), sum.reduce_bytes(count));
  require_sent(world, sum.gather_traffic(), sum.gather_bytes(count, sizeof(float)));
  require(sum.reduce_traffic().inter_messages + sum.gather_traffic().inter_messages ==
              whole->traffic().inter_messages,
          "number of messages", world, count);
}

}  // namespace

TEST_CASE("the halves of a sum over ranks are, bit for bit, an all-reduce on the same route",
          "[threads]") {
  for (const auto& rows : {std::vector<int>{1}, {3}, {1, 1}, {2, 2}, {3, 3}, {2, 2, 2}, {2, 1, 4}})
    for (const bool node_first : {false, true}) {
      if (node_first && !Topology(rows).uniform()) continue;
      const Topology topology(rows, node_first);
      CHECK_NOTHROW(comm::run_ranks(topology, [&](Communicator& world) {
        for (const Route route : {Route::kFlat, Route::kHierarchical}) {
          if (route == Route::kHierarchical && !topology.uniform()) continue;
          for (const size_t floats : {0, 1, 7, 1009}) check_halves(world, route, 0, floats);
          check_halves(world, route, 501, 3);
        }
      }));
    }
}

TEST_CASE("parts of a sum are of all that there is, each of one rank") {
  for (const auto& rows : {std::vector<int>{4}, {2, 2}, {3, 3, 3}, {1, 1, 1}})
    for (const Route route : {Route::kFlat, Route::kHierarchical})
      for (const size_t n : {0, 1, 5, 100}) {
        const ShardedSum sum({.topology = std::make_shared<Topology>(rows)}, route);
        std::vector<int> owners(n);
        for (int q = 0; q < Topology(rows).ranks(); ++q)
          for (size_t i = sum.part_of(n, q).begin; i < sum.part_of(n, q).end; ++i) ++owners[i];
        CHECK(owners == std::vector<int>(n, 1));
      }
  check_contains(message_of<comm::CommError>([] {
                   ShardedSum({.topology = std::make_shared<Topology>(std::vector<int>{1, 2})},
                              Route::kHierarchical);
                 }),
                 {"as many ranks on every node"});
}

}  // namespace hlite::test
