#include "hugectr_lite/comm/hierarchical_communicator.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::Communicator;
using comm::Route;
using comm::Topology;
using comm::TrafficTotals;

TEST_CASE("hierarchical collectives bring and add what the definition says, on any even nodes",
          "[threads]") {
  struct Case {
    int nodes, locals;
    bool node_first;
  };
  for (const auto& [nodes, locals, node_first] :
       {Case{1, 1, false}, Case{1, 4, false}, Case{4, 1, false}, Case{2, 2, false},
        Case{2, 2, true}, Case{3, 2, true}, Case{2, 3, false}, Case{3, 3, true}, Case{2, 4, false},
        Case{4, 2, true}}) {
    INFO(nodes << " nodes of " << locals);
    const Topology topology(std::vector<int>(static_cast<size_t>(nodes), locals), node_first);
    CHECK_NOTHROW(comm::run_ranks(topology, [&](Communicator& world) {
      test::check_hierarchical(world);
      const auto c = world.copy(Route::kHierarchical);
      test::RankExec exec(world);
      test::RankBlocks<float> blocks(world.size(), 3);
      for (int round = 1; round <= 2; ++round) {
        c->all_to_all_v(exec, blocks.blocks());
        // One message to every other node: the flat exchange sends one to every rank there.
        if (c->traffic().inter_messages != round * (nodes - 1))
          raise("{} messages between nodes", c->traffic().inter_messages);
      }
    }));
  }
}

TEST_CASE("between nodes a hierarchical all-reduce sends each value 2 (nodes - 1) times in all",
          "[threads]") {
  std::vector<TrafficTotals> sent(8);
  constexpr int64_t kValues = 8 * 100;
  comm::run_ranks(Topology({2, 2, 2, 2}), [&](Communicator& world) {
    const auto c = world.copy(Route::kHierarchical);
    std::vector<float> values(kValues, 1.0f);
    c->all_reduce(test::RankExec(world), values, comm::AllReduce::kTwoPhase);
    sent[static_cast<size_t>(world.rank())] = c->traffic();
  });
  TrafficTotals sum;
  for (const auto& t : sent) sum += t;
  CHECK(sum.inter_bytes == 2 * 3 * kValues * 4);
  CHECK(sum.intra_bytes == 4 * 2 * kValues * 4);  // half of all values, twice, on each node
  CHECK(sum.inter_received == sum.inter_bytes);
}

TEST_CASE("a block larger than its receiver allows is an error on both routes", "[threads]") {
  for (const Route route : {Route::kFlat, Route::kHierarchical}) {
    const std::string reason = test::message_of<comm::CommError>([&] {
      comm::run_ranks(Topology({2, 2}), [&](Communicator& world) {
        const auto c = world.copy(route);
        test::RankBlocks<char> blocks(4, world.rank() == 3 ? 10 : 9);
        if (world.rank() == 3) blocks.set(2, std::vector<char>(10));
        c->all_to_all_v(test::RankExec(world), blocks.blocks());
      });
    });
    INFO(reason);
    test::check_contains(reason, {"10 bytes to rank 2, which expects at most 9"});
  }
}

TEST_CASE("rails need equal nodes", "[threads]") {
  test::check_contains(test::message_of<comm::CommError>([] {
                         comm::run_ranks(Topology({2, 1}), [](Communicator& world) {
                           (void)world.copy(Route::kHierarchical);
                         });
                       }),
                       {"as many ranks on every node"});
}
