#include "embedding/wanted_rows.h"

#include <map>
#include <random>

#include "hugectr_lite/core/error.h"
#include "tests/embedding/hashed_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::KeyList;
using embedding::slot_key;
using embedding::WantedRows;

TEST_CASE("wanted rows are those of a map that numbers keys as lists come") {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random()) % below; };
  constexpr int64_t kSlots = 5;
  constexpr int kRanks = 3;
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, std::vector<int64_t>(kSlots, 1), 1, 4000);
  WantedRows rows(kRanks);
  std::map<std::pair<int64_t, uint32_t>, uint32_t> want;
  for (int batch = 0; batch < 20; ++batch)
    for (int from = 0; from < kRanks; ++from) {
      std::vector<uint32_t> counts, keys, expected;
      for (int64_t s = 0; s < kSlots; ++s) {
        const size_t before = keys.size();
        // Slot 2 has none; keys are up to the largest there can be.
        for (uint32_t key = draw(7); s != 2 && key < 300; key += 1 + draw(40))
          keys.push_back(key % 3 == 0 ? 0xfffffffe - (300 - key) : key);
        std::sort(keys.begin() + static_cast<std::ptrdiff_t>(before), keys.end());
        keys.erase(std::unique(keys.begin() + static_cast<std::ptrdiff_t>(before), keys.end()),
                   keys.end());
        counts.push_back(static_cast<uint32_t>(keys.size() - before));
        for (size_t i = before; i < keys.size(); ++i)
          expected.push_back(want.emplace(std::pair(s, keys[i]), static_cast<uint32_t>(want.size()))
                                 .first->second);
      }
      rows.want(from, {counts, keys}, c.index);
      const auto got = rows.rows(from);
      CHECK((std::vector<uint32_t>(got.begin(), got.end()) == expected));
      const auto ascending = rows.ascending(from), order = rows.order(from);
      REQUIRE(ascending.size() == expected.size());
      for (size_t i = 0; i < ascending.size(); ++i) {
        CHECK(expected[order[i]] == ascending[i]);
        if (i > 0) CHECK(ascending[i - 1] < ascending[i]);
      }
    }
  const auto keys = c.index.keys();
  REQUIRE(keys.size() == want.size());
  for (const auto& [key, row] : want) CHECK(keys[row] == slot_key(key.first, key.second));
}

TEST_CASE("a list that a table has no room for names its key; what came before stays") {
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1}, 1, 3);
  WantedRows rows(1);
  const std::vector<uint32_t> counts = {2, 2}, keys = {5, 9, 5, 4000000000};
  rows.want(0, {counts, keys}, c.index);
  CHECK(c.index.full());
  check_contains(
      message_of<DataError>([&] { c.index.check({.pool = &pool}); }),
      {"embedding emb", "full", "key 4000000000 of slot 1", "3 rows", "max_vocabulary_size"});
  CHECK(c.index.keys().size() == 3);
  CHECK(c.index.find(1, 5) == 2);
  CHECK(c.index.insert(0, 9) == 1);
}

}  // namespace
}  // namespace hlite::test
