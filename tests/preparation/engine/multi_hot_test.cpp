#include "hugectr_lite/preparation/engine/multi_hot.h"

#include <cmath>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using test::check_contains;
using test::message_of;

// Draw j, from the definition: words of the list's own stream, rejecting what would favour some.
uint32_t drawn(uint64_t seed, uint64_t table, uint32_t id, uint64_t j, uint64_t hotness,
               uint64_t rows) {
  const uint64_t all = uint64_t{1} << 32;
  for (uint64_t index = j;; index += hotness) {
    const uint64_t word = random::word(seed, table << 32 | id, index);
    if (word * rows % all >= all % rows) return static_cast<uint32_t>(word * rows / all);
  }
}

TEST_CASE("a list is the id and draws of its own stream") {
  const std::vector<int64_t> hotness = {1, 3, 7, 100, 2}, rows = {5, 1, 97, 4294967295, 3000000000};
  const MultiHot lists(hotness, rows, 42);
  CHECK(lists.keys() == 113);
  for (const uint32_t base : {0u, 3u, 96u, 12345678u, 2999999999u}) {
    std::vector<uint32_t> ids, expected;
    for (size_t t = 0; t < rows.size(); ++t) {
      ids.push_back(static_cast<uint32_t>(base % static_cast<uint64_t>(rows[t])));
      expected.push_back(ids[t]);
      for (int64_t j = 1; j < hotness[t]; ++j)
        expected.push_back(drawn(42, t, ids[t], static_cast<uint64_t>(j),
                                 static_cast<uint64_t>(hotness[t]),
                                 static_cast<uint64_t>(rows[t])));
    }
    std::vector<uint32_t> keys(113), again(113);
    lists.expand(ids.data(), keys.data());
    CHECK(keys == expected);
    lists.expand(ids.data(), again.data());
    CHECK(keys == again);
    MultiHot(hotness, rows, 43).expand(ids.data(), again.data());
    CHECK(keys != again);
  }
}

TEST_CASE("an id has the same list in all slots of a table, that of the first one") {
  const std::vector<int64_t> hotness = {2, 3, 4, 1, 2}, rows = {50, 9, 50, 9, 7};
  const std::vector<int64_t> tables = {0, 1, 0, 1, 2};
  const MultiHot lists(hotness, rows, 5, tables);
  const uint64_t leaders[] = {0, 1, 0, 1, 4};
  for (uint32_t id = 0; id < 7; ++id) {
    const std::vector<uint32_t> ids(5, id);
    std::vector<uint32_t> keys(12), expected;
    lists.expand(ids.data(), keys.data());
    for (size_t s = 0; s < ids.size(); ++s) {
      expected.push_back(id);
      for (int64_t j = 1; j < hotness[s]; ++j)
        expected.push_back(drawn(5, leaders[s], id, static_cast<uint64_t>(j),
                                 static_cast<uint64_t>(hotness[s]),
                                 static_cast<uint64_t>(rows[s])));
    }
    CHECK(keys == expected);
    CHECK(keys[1] == keys[6]);  // slots 0 and 2
  }
}

TEST_CASE("draws are uniform over the rows of the table") {
  // Also for three quarters of 2^32 rows: without rejection every third row would come twice as
  // often as the others.
  for (const int64_t rows : {int64_t{2}, int64_t{7}, int64_t{1000}, int64_t{3} << 30}) {
    constexpr int64_t kIds = 2000, kDraws = 49, kBins = 6;
    const MultiHot lists({kDraws + 1}, {rows}, 1);
    std::vector<uint32_t> keys(kDraws + 1);
    std::vector<int64_t> seen(kBins);
    for (uint32_t id = 0; id < kIds; ++id) {
      lists.expand(&id, keys.data());
      for (size_t j = 1; j < keys.size(); ++j) {
        REQUIRE(keys[j] < rows);
        ++seen[static_cast<size_t>(keys[j] * kBins / rows)];
      }
    }
    double chi_square = 0;
    for (int64_t b = 0; b < kBins; ++b) {
      // Rows r with r * kBins / rows == b.
      const int64_t low = (b * rows + kBins - 1) / kBins,
                    high = ((b + 1) * rows + kBins - 1) / kBins;
      const double expected = static_cast<double>(kIds * kDraws) * static_cast<double>(high - low) /
                              static_cast<double>(rows);
      const double off = static_cast<double>(seen[static_cast<size_t>(b)]) - expected;
      if (expected > 0) chi_square += off * off / expected;
      if (expected == 0) CHECK(seen[static_cast<size_t>(b)] == 0);
    }
    INFO(rows << " rows");
    CHECK(chi_square < 25);  // five degrees of freedom: once in 7000 seeds
  }
}

TEST_CASE("the sizes of the lists are a name or a list") {
  const auto dcnv2 = parse_hotness("dcnv2", 26);
  CHECK(dcnv2.size() == 26);
  CHECK(std::accumulate(dcnv2.begin(), dcnv2.end(), int64_t{0}) == 214);
  CHECK(dcnv2[20] == 100);
  CHECK(parse_hotness("3,1,2", 3) == std::vector<int64_t>{3, 1, 2});
  CHECK(parse_hotness("5", 1) == std::vector<int64_t>{5});
  const auto error = [](const char* text, int64_t slots) {
    return message_of<ConfigError>([&] { parse_hotness(text, slots); });
  };
  check_contains(error("dcnv2", 25), {"--multi-hot \"dcnv2\"", "expected 25 sizes", "found 26"});
  check_contains(error("1,,2", 3), {"found \"\""});
  check_contains(error("1,0", 2), {"found \"0\""});
  check_contains(error("1,2x", 2), {"found \"2x\""});
  check_contains(error("1,-2", 2), {"found \"-2\""});
  check_contains(error("", 1), {"found \"\""});
  check_contains(error("99999999999999999999", 1), {"found \"99999999999999999999\""});
  check_contains(error("60000,60000", 2), {"at most 65536 keys"});
}

}  // namespace
}  // namespace hlite::prep
