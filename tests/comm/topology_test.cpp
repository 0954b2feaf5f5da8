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

TEST_CASE("NodeFirst needs equal nodes") {
  test::check_contains(test::message_of<comm::CommError>([] {
                         Topology({2, 1}, true);
                       }),
                       {"NodeFirst"});
}
