#include "hugectr_lite/comm/hierarchical_all_reduce.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/support/catch.h"

using namespace hlite;

TEST_CASE("a hierarchical all-reduce adds over all ranks, whatever the size") {
  for (const bool node_first : {false, true})
    for (const auto& rows : {std::vector<int>{2, 2}, {3, 3}, {2, 2, 2, 2}}) {
      const auto topology = std::make_shared<const comm::Topology>(rows, node_first);
      REQUIRE(comm::HierarchicalAllReduce::suits(*topology));
      std::atomic<int> wrong{0};
      comm::run_ranks(topology->ranks(), [&](comm::Communicator& world) {
        comm::HierarchicalAllReduce all({world.rank(), topology, &world});
        for (const auto algo : {comm::AllReduce::kTwoPhase, comm::AllReduce::kOneShot})
          for (const size_t n : {0, 1, 2, 3, 7, 64, 1001}) {
            std::vector<float> values(n);
            for (size_t i = 0; i < n; ++i)
              values[i] = static_cast<float>((world.rank() + 1) * (static_cast<int>(i) % 13 + 1));
            all.run(values, algo);
            const int ranks = topology->ranks(), sum = ranks * (ranks + 1) / 2;
            for (size_t i = 0; i < n; ++i)
              wrong += values[i] != static_cast<float>(sum * (static_cast<int>(i) % 13 + 1));
          }
      });
      CHECK(wrong == 0);
    }
}

TEST_CASE("between nodes a hierarchical all-reduce sends each value 2 (nodes - 1) times in all") {
  const auto topology = std::make_shared<const comm::Topology>(std::vector<int>{2, 2, 2, 2});
  std::vector<comm::TrafficTotals> sent(8);
  constexpr int64_t kValues = 8 * 100;
  comm::run_ranks(8, [&](comm::Communicator& world) {
    comm::HierarchicalAllReduce all({world.rank(), topology, &world});
    std::vector<float> values(kValues, 1.0f);
    all.run(values, comm::AllReduce::kTwoPhase);
    sent[static_cast<size_t>(world.rank())] = all.traffic();
  });
  comm::TrafficTotals sum;
  for (const auto& t : sent) sum += t;
  CHECK(sum.inter_bytes == 2 * 3 * kValues * 4);
  CHECK(sum.intra_bytes == 4 * 2 * kValues * 4);  // half of all values, twice, on each node
  CHECK(sum.inter_received == sum.inter_bytes);
}

TEST_CASE("one node, one rank a node or uneven nodes have nothing to gain") {
  for (const auto& rows : {std::vector<int>{4}, {1, 1, 1}, {2, 1}})
    CHECK(!comm::HierarchicalAllReduce::suits(comm::Topology(rows)));
}
