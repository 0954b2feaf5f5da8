#include "hugectr_lite/comm/expected_traffic.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"

using namespace hlite;
using comm::AllReduce;
using comm::Communicator;
using comm::ExpectedBytes;
using comm::Route;
using comm::Topology;
using comm::TrafficTotals;

namespace {

void check_sent(const Communicator& c, const TrafficTotals& counted,
                const ExpectedBytes& expected) {
  if (static_cast<double>(counted.intra_bytes) != expected.intra ||
      static_cast<double>(counted.inter_bytes) != expected.inter)
    raise("rank {}: {} and {} bytes counted, {} and {} expected", c.rank(), counted.intra_bytes,
          counted.inter_bytes, expected.intra, expected.inter);
}

}  // namespace

TEST_CASE("collectives send what is expected, on any route and topology", "[threads]") {
  for (const auto& rows :
       {std::vector<int>{1}, {3}, {1, 1}, {2, 2}, {3, 3}, {2, 2, 2}, {1, 1, 1, 1}, {2, 1, 4}})
    for (const bool node_first : {false, true}) {
      const bool uniform = Topology(rows).uniform();
      if (node_first && !uniform) continue;
      const Topology topology(rows, node_first);
      CHECK_NOTHROW(comm::run_ranks(topology, [&](Communicator& world) {
        test::RankExec exec(world);
        for (const Route route : {Route::kFlat, Route::kHierarchical}) {
          if (route == Route::kHierarchical && !uniform) continue;
          const auto c = world.copy(route);
          auto since = [&, before = TrafficTotals()]() mutable {
            const TrafficTotals now = c->traffic(), step = now - before;
            before = now;
            return step;
          };
          for (const AllReduce algo : {AllReduce::kTwoPhase, AllReduce::kOneShot})
            for (const size_t count : {0, 1, 5, 64, 1009}) {
              std::vector<float> values(count, 1.0f);
              c->all_reduce(exec, values, algo);
              check_sent(*c, since(),
                         comm::all_reduce_bytes(topology, c->rank(), route, algo,
                                                static_cast<int64_t>(count)));
            }
          for (const size_t count : {0, 1, 7}) {
            if (route != Route::kFlat) continue;
            const std::vector<std::byte> mine(count);
            std::vector<std::byte> all(count * static_cast<size_t>(c->size()));
            c->all_gather(exec, mine, all);
            check_sent(*c, since(),
                       comm::all_gather_bytes(topology, c->rank(), static_cast<int64_t>(count)));
          }
          for (const size_t scale : {0, 1, 101}) {
            test::RankBlocks<char> blocks(c->size(), 4 * scale + 1);
            for (int q = 0; q < c->size(); ++q)
              blocks.set(q, std::vector<char>(test::length_of(c->rank(), q, scale)));
            c->all_to_all_v(exec, blocks.blocks());
            check_sent(*c, since(),
                       comm::all_to_all_bytes(topology, c->rank(), route, [&](int from, int to) {
                         return static_cast<double>(test::length_of(from, to, scale)) +
                                static_cast<double>(comm::size_bytes(route));
                       }));
          }
        }
      }));
    }
}
