#include "embedding/eviction.h"

#include <algorithm>
#include <set>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::embedding {
namespace {

struct DrawnRows {
  std::vector<uint64_t> keys;
  std::vector<RowUse> uses;
  std::vector<float> norms;
};

DrawnRows draw_rows(uint32_t n, uint64_t seed, int64_t iteration) {
  DrawnRows rows;
  for (uint32_t i = 0; i < n; ++i) {
    rows.keys.push_back(uint64_t{i % 3} << 32 | (i * 7919u));
    rows.uses.push_back({.count = 1 + random::word(seed, 1, i) % 9,
                         .last = 1 + random::word(seed, 2, i) % static_cast<uint32_t>(iteration)});
    rows.norms.push_back(random::uniform(random::word(seed, 3, i)));
  }
  return rows;
}

std::vector<uint32_t> evicted_of(const VocabularyRules& rules, const DrawnRows& rows,
                                 int64_t iteration, int64_t before, int64_t capacity,
                                 VocabularyCounts& counts) {
  return choose_evicted(rules,
                        {.keys = rows.keys,
                         .uses = rows.uses,
                         .norms = [&] { return rows.norms; },
                         .iteration = iteration,
                         .before = before,
                         .capacity = capacity},
                        counts);
}

}  // namespace

TEST_CASE("rows leave by age, count and norm, each by its definition") {
  const int64_t iteration = 100, before = 80;
  const DrawnRows rows = draw_rows(500, 1, iteration);
  for (const int64_t to_live : {0, 30})
    for (const int64_t least : {0, 5})
      for (const double norm : {0.0, 0.3}) {
        INFO(to_live << " " << least << " " << norm);
        VocabularyRules rules;
        rules.eviction = {.steps_to_live = to_live, .min_count = least, .min_l2_norm = norm};
        VocabularyCounts counts;
        const auto got = evicted_of(rules, rows, iteration, before, 1000, counts);
        std::vector<uint32_t> want;
        for (uint32_t i = 0; i < 500; ++i) {
          const RowUse& use = rows.uses[i];
          const bool expired = to_live > 0 && iteration - use.last >= to_live,
                     idle = use.last <= before, rare = least > 0 && use.count < least,
                     small = static_cast<double>(rows.norms[i]) < norm;
          if (expired || (idle && (rare || small))) want.push_back(i);
        }
        CHECK(got == want);
        CHECK(counts.evicted() == std::ssize(want));
        CHECK((counts.expired > 0) == (to_live > 0));
        CHECK((counts.rare > 0) == (least > 0));
        CHECK((counts.small > 0) == (norm > 0));
        CHECK(counts.displaced == 0);
        CHECK(want.empty() == (to_live == 0 && least == 0 && norm == 0));
      }
}

TEST_CASE("a table more than nine tenths full keeps the eight tenths that were used last") {
  VocabularyRules rules;
  rules.when_full = WhenFull::kEvict;
  const DrawnRows rows = draw_rows(92, 2, 40);
  VocabularyCounts counts;
  const auto got = evicted_of(rules, rows, 40, 30, 100, counts);
  CHECK(got.size() == 12);
  CHECK(counts.displaced == 12);
  CHECK(std::is_sorted(got.begin(), got.end()));
  const auto order = [&](uint32_t row) {
    return std::tuple(rows.uses[row].last, rows.uses[row].count, rows.keys[row]);
  };
  const std::set<uint32_t> gone(got.begin(), got.end());
  for (uint32_t stays = 0; stays < 92; ++stays)
    for (const uint32_t leaves : got)
      if (gone.count(stays) == 0) CHECK(order(leaves) < order(stays));
  CHECK(evicted_of(rules, draw_rows(90, 2, 40), 40, 30, 100, counts).empty());
  // Rows that leave by age count first.
  rules.eviction.steps_to_live = 10;
  VocabularyCounts both;
  const auto old = evicted_of(rules, rows, 40, 30, 100, both);
  CHECK(both.expired > 12);
  CHECK(both.displaced == 0);
  CHECK(std::ssize(old) == both.expired);
}

TEST_CASE("counted keys are forgotten by age, and beyond three quarters of their capacity") {
  VocabularyRules rules;
  std::vector<CountedKey> keys;
  for (uint32_t i = 0; i < 80; ++i) keys.push_back({i, {.count = 1, .last = 1 + i * 37 % 80}});
  CHECK(kept_candidates(rules, keys, 80, 107).size() == 80);
  const auto half = kept_candidates(rules, keys, 80, 100);
  CHECK(half.size() == 50);
  for (const CountedKey& key : half) CHECK(key.use.last > 30);
  rules.eviction.steps_to_live = 20;
  const auto young = kept_candidates(rules, keys, 80, 1000);
  CHECK(young.size() == 20);
  for (const CountedKey& key : young) CHECK(80 - key.use.last < 20);
}

}  // namespace hlite::embedding
