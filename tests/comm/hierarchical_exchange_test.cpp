#include "hugectr_lite/comm/hierarchical_exchange.h"

#include "hugectr_lite/comm/thread_communicator.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::Communicator;
using comm::HierarchicalExchange;
using comm::Topology;

namespace {
int64_t total(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{0});
}
}  // namespace

TEST_CASE("the hierarchical all-to-all brings what the flat one brings") {
  struct Case {
    int nodes, locals;
    bool node_first;
  };
  for (const auto& [nodes, locals, node_first] :
       {Case{1, 1, false}, Case{1, 4, false}, Case{4, 1, false}, Case{2, 2, false},
        Case{2, 2, true}, Case{3, 2, true}, Case{2, 4, false}}) {
    INFO(nodes << " nodes of " << locals);
    const Topology topology(std::vector<int>(static_cast<size_t>(nodes), locals), node_first);
    CHECK_NOTHROW(comm::run_ranks(topology.ranks(), [&](Communicator& world) {
      constexpr size_t kScale = 257, kCapacity = (4 * kScale + 1) * sizeof(float);
      HierarchicalExchange exchange(world, topology, kCapacity);
      for (int round = 0; round < 2; ++round) {
        const auto ranks = static_cast<size_t>(world.size());
        std::vector<std::vector<float>> out(ranks), in(ranks);
        std::vector<comm::ConstBytes> send(ranks);
        std::vector<comm::Bytes> receive(ranks);
        std::vector<size_t> received(ranks, 99);
        const auto stream = static_cast<uint64_t>(round);
        for (int q = 0; q < world.size(); ++q) {
          const auto at = static_cast<size_t>(q);
          out[at] = test::values_of(world.rank() * 100 + q,
                                    test::length_of(world.rank(), q, kScale), stream);
          in[at].assign(4 * kScale + 1, -1);
          send[at] = std::as_bytes(std::span(out[at]));
          receive[at] = std::as_writable_bytes(std::span(in[at]));
        }
        exchange.all_to_all_v(send, receive, received);
        bool good = true;
        for (int q = 0; q < world.size(); ++q) {
          const auto at = static_cast<size_t>(q);
          const auto wanted = test::values_of(q * 100 + world.rank(),
                                              test::length_of(q, world.rank(), kScale), stream);
          good &= received[at] == wanted.size() * sizeof(float);
          good &= std::equal(wanted.begin(), wanted.end(), in[at].begin());
        }
        test::require(good, "hierarchical all-to-all", world, round);
        // One message to every other node: the flat exchange sends one to every rank there.
        if (total(exchange.rail().traffic().messages) != (round + 1) * (nodes - 1))
          raise("{} messages between nodes", total(exchange.rail().traffic().messages));
      }
    }));
  }
}

TEST_CASE("rails need equal nodes") {
  test::check_contains(test::message_of<comm::CommError>([] {
                         comm::run_ranks(3, [](Communicator& world) {
                           HierarchicalExchange(world, Topology({2, 1}), 8);
                         });
                       }),
                       {"as many ranks on every node"});
}
