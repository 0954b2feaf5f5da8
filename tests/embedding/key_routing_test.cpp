#include "embedding/key_routing.h"

#include "embedding/key_sort.h"
#include "tests/embedding/routing_case.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

using namespace embedding;

// Of the distinct keys of a slot.
bool slot_is(const KeyRouting& routing, int64_t s,
             const std::map<uint32_t, ExpectedRoute::Row>& want) {
  const auto distinct = routing.distinct(s);
  bool good = distinct.size() == want.size();
  size_t i = 0;
  for (const auto& [key, row] : want) {
    if (!good) return false;
    const auto& d = distinct[i++];
    good &= d.end - d.begin == row.samples.size() && d.copied == (row.rank < 0);
    good &= d.entry == (d.copied ? row.at : row.rank * routing.block() + row.at);
    for (uint32_t p = d.begin; p < d.end && good; ++p) {
      good &= key_of(routing.pairs(s)[p]) == key;
      good &= sample_of(routing.pairs(s)[p]) == row.samples[p - d.begin];
    }
  }
  return good;
}

void check_route(const KeyRouting& routing, const ExpectedRoute& want) {
  for (int64_t s = 0; s < routing.layout().slots(); ++s)
    CHECK(slot_is(routing, s, want.rows[static_cast<size_t>(s)]));
  int64_t listed = 0;
  for (int q = 0; q < routing.placement().ranks(); ++q) {
    const auto list = routing.list(q);
    CHECK(std::vector<uint32_t>(list.begin(), list.end()) == want.lists[static_cast<size_t>(q)]);
    if (!routing.placement().hashed())  // there keys of several slots may be the same number
      CHECK(std::set<uint32_t>(list.begin(), list.end()).size() == list.size());
    CHECK(routing.list_begin(q) == listed);
    listed += std::ssize(list);
  }
  CHECK(routing.listed() == listed);
}

}  // namespace

TEST_CASE("random batches are routed as the definition says") {
  for (uint64_t round = 0; round < 40; ++round) {
    RoutingCase random(round, 2);
    ThreadPool pool(1 + static_cast<int>(round % 3));
    const RowPlacement hashed = random.hashed_placement();
    const RowPlacement& placement = round % 5 == 4 ? hashed : random.placement();
    KeyRouting routing(placement, RoutingCase::kMostSamples, pool.threads());
    INFO("round " << round);
    for (const int64_t batch : {RoutingCase::kMostSamples, int64_t{0}, int64_t{1}, int64_t{40}}) {
      const auto keys = random.keys(batch);
      routing.route({.pool = &pool}, keys.view(),
                    batch * random.tables().columns() + random.draw(2));
      check_route(routing, ExpectedRoute(placement, keys.view()));
    }
  }
}

}  // namespace hlite::test
