#include "hugectr_lite/comm/traffic_totals.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/rank_blocks.h"
#include "tests/support/catch.h"

namespace hlite::comm {

// Three calls; some blocks are empty.
TEST_CASE("traffic by rails follows from the traffic of each pair of ranks", "[threads]") {
  const auto floats = [](int from, int to) { return (from * 5 + to * 3) % 4; };
  for (const Topology& topology : {Topology({2, 2}), Topology({3, 3}, true), Topology({1, 1, 1})})
    CHECK_NOTHROW(run_ranks(topology, [&](Communicator& world) {
      const auto rails = world.copy(Route::kHierarchical);
      ThreadPool pool(1);
      for (int call = 0; call < 3; ++call) {
        test::RankBlocks<float> blocks(world.size(), 4);
        for (int q = 0; q < world.size(); ++q)
          blocks.set(q, std::vector<float>(static_cast<size_t>(floats(world.rank(), q)), 1));
        rails->all_to_all_v({.pool = &pool}, blocks.blocks());
      }
      const TrafficTotals want = rails->traffic(),
                          got = rail_traffic(topology, world.rank(), 3, [&](int from, int to) {
                            return int64_t{3} * 4 * floats(from, to);
                          });
      const auto check = [&](int64_t a, int64_t b, const char* what) {
        if (a != b) raise("{} of rank {}: {}, expected {}", what, world.rank(), a, b);
      };
      check(got.intra_bytes, want.intra_bytes, "bytes in the node");
      check(got.inter_bytes, want.inter_bytes, "bytes between nodes");
      check(got.intra_messages, want.intra_messages, "messages in the node");
      check(got.inter_messages, want.inter_messages, "messages between nodes");
      check(got.intra_received, want.intra_received, "bytes got in the node");
      check(got.inter_received, want.inter_received, "bytes got from other nodes");
    }));
}

}  // namespace hlite::comm
