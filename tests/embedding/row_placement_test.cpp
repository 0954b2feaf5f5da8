#include "embedding/row_placement.h"

#include <map>

#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {
// Every row of every table lies in exactly one place, places have no gaps, and table_row() finds
// the way back.
void check_placement(const RowPlacement& placement) {
  const SlotLayout& layout = placement.layout();
  std::map<std::pair<int, uint32_t>, TableRow> seen;
  for (int64_t s = 0; s < layout.slots(); ++s) {
    std::map<int, uint32_t> last;
    for (uint32_t key = 0; key < layout.rows[static_cast<size_t>(s)]; ++key) {
      const RowPlace place = placement.locate(s, key);
      CHECK(seen.emplace(std::pair(place.rank, place.row), TableRow{s, key}).second);
      if (place.rank >= 0) {  // what exchanges rely on: lists sorted by key are sorted by row
        CHECK((!last.contains(place.rank) || last[place.rank] < place.row));
        last[place.rank] = place.row;
      }
    }
  }
  std::map<int, int64_t> held;
  for (const auto& [place, row] : seen) {
    CHECK(place.second == held[place.first]++);
    CHECK(placement.table_row(place.first, place.second) == row);
  }
  CHECK(held[-1] == placement.replicated_rows());
  for (int r = 0; r < placement.ranks(); ++r) CHECK(held[r] == placement.rows_of(r));
}
}  // namespace

TEST_CASE("tables on ranks, split, and copied") {
  const SlotLayout layout({7, 1, 12, 3, 5}, 4);
  check_placement(RowPlacement::by_table(layout, {{0}, {1}, {2}, {0}, {1}}, 3));
  check_placement(RowPlacement::by_table(layout, {{2, 0}, {}, {0, 1, 2}, {1}, {}}, 3));
  check_placement(RowPlacement::by_table(layout, {{}, {}, {}, {}, {}}, 2));
  check_placement(RowPlacement::by_table(layout, {{0}, {0}, {0}, {0}, {0}}, 1));
  check_placement(RowPlacement::by_table(layout, {{0}, {1, 0, 2, 3}, {0}, {0}, {0}}, 4));
}

TEST_CASE("categories spread over ranks, with and without frequent ones") {
  const SlotLayout layout({7, 1, 12, 3, 5}, 4);
  for (const int ranks : {1, 2, 3, 7}) {
    check_placement(RowPlacement::by_category(layout, CategoryModel(layout, ranks)));
    const auto statistics =
        FrequencyStatistics::of_lookups({0, 0, 3, 3, 7, 7, 9, 9, 9, 21, 21, 22, 26, 26, 27});
    check_placement(RowPlacement::by_category(
        layout, CategoryModel(layout, ranks, statistics, 2, layout.total_rows)));
  }
}

TEST_CASE("keys that are not known beforehand are spread by key or table") {
  const SlotLayout layout({7, 1, 12, 3, 5}, 4);
  for (const int ranks : {1, 2, 3, 7})
    for (const KeyOwner by : {KeyOwner::kByKey, KeyOwner::kByTable}) {
      const auto placement = RowPlacement::by_key(layout, ranks, 1000, by);
      CHECK(placement.owner() == by);
      CHECK(placement.hashed());
      CHECK(placement.replicated_rows() == 0);
      std::vector<int64_t> held(static_cast<size_t>(ranks), 0);
      for (int64_t s = 0; s < layout.slots(); ++s) {
        std::vector<double> share(held.size(), 0.0);
        const auto keys = static_cast<uint32_t>(layout.rows[static_cast<size_t>(s)]);
        for (uint32_t key = 0; key < keys; ++key) {
          const RowPlace place = placement.locate(s, key);
          const uint64_t number = by == KeyOwner::kByKey ? key : static_cast<uint64_t>(s);
          CHECK(place.rank == static_cast<int>(number % static_cast<uint64_t>(ranks)));
          CHECK(place.row == key);
          ++held[static_cast<size_t>(place.rank)];
        }
        share[static_cast<size_t>(s % ranks)] = 1;
        if (by == KeyOwner::kByKey) share.assign(held.size(), 1.0 / ranks);
        CHECK(placement.key_share(s) == share);
      }
      for (int q = 0; q < ranks; ++q)  // an index holds one key at least
        CHECK(placement.rows_of(q) == std::max<int64_t>(held[static_cast<size_t>(q)], 1));
    }
  const SlotLayout all({int64_t{kNoKey}, int64_t{kNoKey}}, 4);
  CHECK(RowPlacement::by_key(all, 2, 500, KeyOwner::kByKey).rows_of(1) == 500);
  CHECK(RowPlacement::by_key(all, 3, 500, KeyOwner::kByTable).rows_of(2) == 1);
}
