#include "embedding/key_routing.h"

#include <map>
#include <set>

#include "embedding/key_sort.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {
// Checks a route against the definition, with sets and maps.
void check_route(const KeyRouting& routing, Matrix<const uint32_t> keys) {
  const RowPlacement& placement = routing.placement();
  const KeyLayout& layout = routing.layout().keys;
  std::vector<std::vector<uint32_t>> lists(static_cast<size_t>(placement.ranks()));
  bool good = true;
  for (int64_t s = 0; s < layout.slots(); ++s) {
    const auto column = layout.first_column[static_cast<size_t>(s)];
    std::map<uint32_t, std::vector<int64_t>> samples;  // of each key, one entry a lookup
    for (int64_t b = 0; b < keys.dim(0); ++b)
      for (int64_t j = 0; j < layout.hotness[static_cast<size_t>(s)]; ++j)
        if (keys(b, column + j) != kNoKey) samples[keys(b, column + j)].push_back(b);
    const auto distinct = routing.distinct(s);
    REQUIRE(distinct.size() == samples.size());
    size_t i = 0;
    for (const auto& [key, of] : samples) {
      const auto& d = distinct[i++];
      const RowPlace place = placement.locate(s, key);
      good &= d.end - d.begin == of.size();
      for (uint32_t p = d.begin; p < d.end && good; ++p) {
        good &= key_of(routing.pairs(s)[p]) == key;
        good &= sample_of(routing.pairs(s)[p]) == of[p - d.begin];
      }
      good &= d.copied == (place.rank < 0);
      if (d.copied) {
        good &= d.entry == place.row;
        continue;
      }
      auto& list = lists[static_cast<size_t>(place.rank)];
      good &= d.entry == place.rank * routing.block() + static_cast<int64_t>(list.size());
      list.push_back(place.row);
    }
  }
  CHECK(good);
  int64_t listed = 0;
  for (int q = 0; q < placement.ranks(); ++q) {
    const auto list = routing.list(q);
    CHECK(std::vector<uint32_t>(list.begin(), list.end()) == lists[static_cast<size_t>(q)]);
    CHECK(std::set<uint32_t>(list.begin(), list.end()).size() == list.size());
    CHECK(routing.list_begin(q) == listed);
    listed += static_cast<int64_t>(list.size());
  }
  CHECK(routing.listed() == listed);
}
}  // namespace

TEST_CASE("random batches are routed as the definition says") {
  for (uint64_t round = 0; round < 40; ++round) {
    uint64_t n = 0;
    const auto draw = [&](uint32_t below) {
      return static_cast<int64_t>(random::word(21, round, n++) % below);
    };
    const auto slots = static_cast<size_t>(1 + draw(5));
    std::vector<int64_t> rows(slots), hotness(slots);
    for (auto& r : rows) r = 1 + draw(draw(2) ? 5 : 3000);
    for (auto& h : hotness) h = round % 3 ? 1 : 1 + draw(4);
    const KeyLayout layout(hotness);
    const SlotLayout tables(rows, 2, layout);
    const int ranks = 1 + static_cast<int>(draw(7));
    std::vector<int64_t> seen;
    for (int i = 0; i < 300; ++i) seen.push_back(draw(30) * draw(30) % tables.total_rows);
    std::vector<std::vector<int>> shards(slots);
    for (auto& on : shards)
      for (int q = 0; q < ranks; ++q)
        if (draw(2)) on.push_back(q);
    const RowPlacement placement =
        round % 2 ? RowPlacement::by_table(tables, shards, ranks)
                  : RowPlacement::by_category(
                        tables, CategoryModel(tables, ranks, FrequencyStatistics::of_lookups(seen),
                                              3, tables.total_rows));
    ThreadPool pool(1 + static_cast<int>(round % 3));
    constexpr int64_t kMost = 97;
    KeyRouting routing(placement, kMost, pool.threads());
    INFO("round " << round);
    for (const int64_t batch : {kMost, int64_t{0}, int64_t{1}, int64_t{40}}) {
      Tensor<uint32_t, 2> keys(batch, layout.columns);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t c = 0; c < layout.columns; ++c) {
          const auto s = static_cast<size_t>(layout.slot_of(c));
          const auto below = static_cast<uint32_t>(rows[s]);
          keys.view()(b, c) = hotness[s] > 1 && draw(4) == 0
                                  ? kNoKey
                                  : static_cast<uint32_t>(draw(below) * (draw(2) ? 1 : 0));
        }
      routing.route({.pool = &pool}, keys.view(), batch * layout.columns + draw(2));
      check_route(routing, keys.view());
    }
  }
}
