#include "embedding/hashed_rows.h"

#include <map>
#include <random>
#include <tuple>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::HashedRows;
using embedding::KeyIndex;
using embedding::KeyList;

const HashedRows::OnNew kIgnore = [](int64_t, uint32_t, int64_t) {};

TEST_CASE("hashed rows are those of a map that numbers keys as they come") {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random()) % below; };
  constexpr int64_t kSlots = 5;
  constexpr int kRanks = 3;
  HashedRows rows("emb", kSlots, 4000, kRanks);
  std::map<std::pair<int64_t, uint32_t>, uint32_t> want;
  std::vector<std::tuple<int64_t, uint32_t, int64_t>> announced;
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
      rows.want(from, {counts, keys},
                [&](int64_t s, uint32_t key, int64_t row) { announced.emplace_back(s, key, row); });
      const auto got = rows.rows(from);
      CHECK((std::vector<uint32_t>(got.begin(), got.end()) == expected));
      const auto ascending = rows.ascending(from), order = rows.order(from);
      REQUIRE(ascending.size() == expected.size());
      for (size_t i = 0; i < ascending.size(); ++i) {
        CHECK(expected[order[i]] == ascending[i]);
        if (i > 0) CHECK(ascending[i - 1] < ascending[i]);
      }
    }
  CHECK(rows.size() == std::ssize(want));
  REQUIRE(announced.size() == want.size());  // each once
  for (const auto& [slot, key, row] : announced) CHECK(want.at({slot, key}) == row);

  const auto keys = rows.keys();
  REQUIRE(keys.size() == kSlots);
  for (int64_t s = 0; s < kSlots; ++s) {
    std::vector<uint32_t> of_slot;
    for (const auto& [place, row] : want)
      if (place.first == s) of_slot.push_back(place.second);
    CHECK((keys[static_cast<size_t>(s)] == of_slot));
  }
  rows.clear();
  CHECK(rows.size() == 0);
  CHECK(rows.find(0, 1) == KeyIndex::kAbsent);
}

TEST_CASE("a key of another slot has a row of its own") {
  HashedRows rows("emb", 2, 10, 1);
  CHECK(rows.insert(0, 7, kIgnore) == 0);
  CHECK(rows.insert(1, 7, kIgnore) == 1);
  CHECK(rows.insert(0, 7, kIgnore) == 0);
  CHECK(rows.find(1, 8) == KeyIndex::kAbsent);
}

TEST_CASE("a full table names the key that did not fit, and keeps what it has") {
  HashedRows rows("emb", 2, 3, 1);
  const std::vector<uint32_t> counts = {2, 2}, keys = {5, 9, 5, 4000000000};
  check_contains(
      message_of<DataError>([&] {
        rows.want(0, {counts, keys}, kIgnore);
      }),
      {"embedding emb", "full", "key 4000000000 of slot 1", "3 rows", "max_vocabulary_size"});
  CHECK(rows.size() == 3);
  CHECK(rows.find(1, 5) == 2);
  CHECK(rows.insert(0, 9, kIgnore) == 1);
}

}  // namespace
}  // namespace hlite::test
