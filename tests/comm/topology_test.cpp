#include "hugectr_lite/comm/topology.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using comm::Topology;

TEST_CASE("LocalFirst numbers ranks node by node") {
  const Topology t({2, 3, 1});
  CHECK(t.nodes() == 3);
  CHECK(t.ranks() == 6);
  CHECK_FALSE(t.uniform());
  const int node[] = {0, 0, 1, 1, 1, 2}, local[] = {0, 1, 0, 1, 2, 0};
  for (int r = 0; r < 6; ++r) {
    CHECK(t.node_of(r) == node[r]);
    CHECK(t.local_of(r) == local[r]);
    CHECK(t.rank_at(node[r], local[r]) == r);
  }
}

TEST_CASE("NodeFirst numbers ranks across nodes") {
  const Topology t({2, 2, 2}, true);
  CHECK(t.uniform());
  const int node[] = {0, 1, 2, 0, 1, 2}, local[] = {0, 0, 0, 1, 1, 1};
  for (int r = 0; r < 6; ++r) {
    CHECK(t.node_of(r) == node[r]);
    CHECK(t.local_of(r) == local[r]);
    CHECK(t.rank_at(node[r], local[r]) == r);
  }
}

TEST_CASE("a part of a topology numbers the ranks and nodes that are left") {
  const int ranks[] = {1, 4, 7};  // of nodes 0, 1, 2, or all of node 1
  for (const bool node_first : {false, true}) {
    const Topology t = Topology({3, 3, 3}, node_first).part(ranks);
    CHECK(t.ranks() == 3);
    CHECK(t.nodes() == (node_first ? 1 : 3));
    for (int r = 0; r < 3; ++r) {
      CHECK(t.node_of(r) == (node_first ? 0 : r));
      CHECK(t.local_of(r) == (node_first ? r : 0));
      CHECK(t.rank_at(t.node_of(r), t.local_of(r)) == r);
    }
  }
}

TEST_CASE("one node, one rank a node or uneven nodes gain nothing by rails") {
  CHECK(Topology({2, 2}).rails_pay());
  CHECK(Topology({3, 3, 3}, true).rails_pay());
  for (const auto& rows : {std::vector<int>{4}, {1, 1, 1}, {2, 1}, {1}})
    CHECK(!Topology(rows).rails_pay());
}

TEST_CASE("NodeFirst needs equal nodes") {
  test::check_contains(test::message_of<comm::CommError>([] {
                         Topology({2, 1}, true);
                       }),
                       {"NodeFirst"});
}
