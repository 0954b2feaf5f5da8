// Compares what HashedIndex does between iterations with a model of the rules' definitions.
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "hugectr_lite/core/error.h"
#include "tests/embedding/hashed_case.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::AdmissionType;
using embedding::RowUse;
using embedding::table_key;
using embedding::VocabularyCounts;
using embedding::VocabularyRules;

// The lookups of a batch of HashedCase's layer with one slot of 2 keys and one of 1.
std::vector<uint64_t> lookups_between_others(const std::vector<uint32_t>& keys) {
  constexpr size_t kColumns = 2 + 2 + 1 + 1;
  std::vector<uint64_t> lookups;
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t column = i % kColumns;
    if (column >= 2 && column <= 4 && keys[i] != kNoKey)
      lookups.push_back(table_key(column == 4 ? 1 : 0, keys[i]));
  }
  return lookups;
}

// All weights of a key's row; the norm of a row of width 3.
float weight_of(uint64_t key) { return static_cast<float>(key % 7) * 0.01f; }
double norm_of(uint64_t key) { return std::sqrt(3.0) * static_cast<double>(key % 7) * 0.01; }

// The rows and counts of the keys, by the definitions in vocabulary_rules.h.
struct RuledVocabulary {
  VocabularyRules rules;
  int64_t capacity;
  std::map<uint64_t, RowUse> rows = {}, counted = {};
  VocabularyCounts counts = {};

  void train(const std::vector<uint64_t>& lookups, uint32_t iteration) {
    const bool by_count = rules.admission.type == AdmissionType::kCount;
    for (const uint64_t key : std::set(lookups.begin(), lookups.end())) {
      if (rows.contains(key)) {
        rows[key] = {.count = rows[key].count + 1, .last = iteration};
        continue;
      }
      const RowUse use{.count = counted[key].count + 1, .last = iteration};
      counted.erase(key);
      const bool full = std::ssize(rows) == capacity;
      if (!full && (!by_count || use.count >= rules.admission.threshold)) {
        rows[key] = use;
        ++counts.inserted;
      } else if (by_count) {
        counted[key] = use;
      }
    }
    for (const uint64_t key : lookups) counts.refused += !rows.contains(key);
  }
  void evict(int64_t iteration, int64_t before) {
    const auto& by = rules.eviction;
    const auto expired = [&](const RowUse& use) {
      return by.steps_to_live > 0 && iteration - use.last >= by.steps_to_live;
    };
    std::erase_if(counted, [&](const auto& of) { return expired(of.second); });
    std::erase_if(rows, [&](const auto& of) {
      const auto& [key, use] = of;
      const bool idle = use.last <= before;
      int64_t* const by_rule = expired(use)                            ? &counts.expired
                               : idle && use.count < by.min_count      ? &counts.rare
                               : idle && norm_of(key) < by.min_l2_norm ? &counts.small
                                                                       : nullptr;
      if (by_rule) ++*by_rule;
      return by_rule != nullptr;
    });
    if (rules.when_full == embedding::WhenFull::kEvict && 10 * std::ssize(rows) > 9 * capacity) {
      std::set<std::tuple<uint32_t, uint32_t, uint64_t>> order;
      for (const auto& [key, use] : rows) order.emplace(use.last, use.count, key);
      for (auto at = order.begin(); 10 * std::ssize(rows) > 8 * capacity; ++at) {
        rows.erase(std::get<2>(*at));
        ++counts.displaced;
      }
    }
    if (by.min_count > 0 && by.count_decay < 1)
      for (auto& [key, use] : rows)
        use.count = static_cast<uint32_t>(std::floor(use.count * by.count_decay));
  }
};

std::vector<std::pair<std::string, VocabularyRules>> rules_of_eviction() {
  std::vector<std::pair<std::string, VocabularyRules>> list(5);
  list[0].first = "steps to live";
  list[0].second.eviction = {.interval = 3, .steps_to_live = 5};
  list[1].first = "count that decays";
  list[1].second.eviction = {.interval = 3, .min_count = 3, .count_decay = 0.7};
  list[2].first = "norm";
  list[2].second.eviction = {.interval = 3, .min_l2_norm = 0.03};
  list[3].first = "full";
  list[3].second.when_full = embedding::WhenFull::kEvict;
  list[4].first = "admission, and all of them";
  list[4].second.admission = {.type = AdmissionType::kCount, .threshold = 2, .capacity = 1000};
  list[4].second.eviction = {
      .interval = 3, .steps_to_live = 9, .min_count = 4, .count_decay = 0.5, .min_l2_norm = 0.015};
  list[4].second.when_full = embedding::WhenFull::kEvict;
  return list;
}

}  // namespace

TEST_CASE("the rows that leave a hash table are those of its rules, and the counts say why",
          "[threads]") {
  for (const auto& [name, rules] : rules_of_eviction()) {
    INFO(name);
    const int64_t capacity = rules.when_full == embedding::WhenFull::kEvict ? 70 : 1000;
    ThreadPool pool(2);
    HashedCase c({.pool = &pool}, {2, 1}, 3, capacity, embedding::Combiner::kSum, {}, rules);
    RuledVocabulary want{.rules = rules, .capacity = capacity};
    for (uint32_t iteration = 1; iteration <= 30; ++iteration) {
      c.set_iterations(iteration - 1);
      const auto keys = c.draw(iteration % 10 == 9 ? 0 : 11, 20 + 4 * iteration, iteration);
      (void)c.find_rows(keys, true);
      want.train(lookups_between_others(keys), iteration);
      const auto placed = c.index.keys();
      for (size_t row = 0; row < placed.size(); ++row)
        for (int64_t j = 0; j < 3; ++j)
          c.storage().own().w.as<float>()(static_cast<int64_t>(row), j) = weight_of(placed[row]);
      if (iteration % 3 == 0) {
        c.index.evict(iteration, iteration - 3);
        want.evict(iteration, iteration - 3);
      }
      INFO("iteration " << iteration);
      const auto left = c.index.keys();
      const auto uses = c.storage().rows().uses_of(std::ssize(left));
      std::map<uint64_t, std::pair<uint32_t, uint32_t>> got, expected;
      for (size_t row = 0; row < left.size(); ++row)
        got[left[row]] = {uses[row].count, uses[row].last};
      for (const auto& [key, use] : want.rows) expected[key] = {use.count, use.last};
      REQUIRE(left.size() == want.rows.size());
      REQUIRE((got == expected));
      const VocabularyCounts counts = c.index.vocabulary();
      CHECK(counts.rows == std::ssize(want.rows));
      CHECK(counts.candidates == std::ssize(want.counted));
      CHECK(counts.inserted == want.counts.inserted);
      CHECK(counts.expired == want.counts.expired);
      CHECK(counts.rare == want.counts.rare);
      CHECK(counts.small == want.counts.small);
      CHECK(counts.displaced == want.counts.displaced);
      CHECK(counts.refused == want.counts.refused);
    }
    // Each rule has had its turn, if none before it took its rows.
    CHECK(want.counts.evicted() > 0);
    CHECK((want.counts.refused > 0) == rules.refuses());
    if (rules.admission.type == AdmissionType::kCount) continue;
    CHECK((want.counts.expired > 0) == (rules.eviction.steps_to_live > 0));
    CHECK((want.counts.rare > 0) == (rules.eviction.min_count > 0));
    CHECK((want.counts.small > 0) == (rules.eviction.min_l2_norm > 0));
    CHECK((want.counts.displaced > 0) == (rules.when_full == embedding::WhenFull::kEvict));
  }
}

TEST_CASE("assigned keys replace all rows and counted keys, and the counts of the run go on") {
  VocabularyRules rules;
  rules.admission = {.type = AdmissionType::kCount, .threshold = 2, .capacity = 50};
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1}, 3, 7, embedding::Combiner::kSum, {}, rules);
  for (const int64_t done : {0, 1}) {
    c.set_iterations(done);
    (void)c.take_list({{0, 3}, {1, 3}}, true);
  }
  c.set_iterations(2);
  (void)c.take_list({{0, 90}}, true);
  const VocabularyCounts before = c.index.vocabulary();
  CHECK((before.rows == 2 && before.inserted == 2 && before.refused == 3));
  CHECK(before.candidates == 1);
  for (const size_t n : {7, 1, 0, 5}) {
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < n; ++i)
      keys.push_back(table_key(static_cast<int64_t>(i % 2), static_cast<uint32_t>(1000 - 11 * i)));
    // Values and uses that were trained, to see the initial ones replace them.
    for (int64_t row = 0; row < 7; ++row) c.storage().own().w.as<float>()(row, 1) = -9;
    c.storage().rows().set_uses(std::vector<RowUse>(7, RowUse{.count = 8, .last = 9}));
    c.index.assign(keys);
    CHECK(c.index.keys() == keys);
    const auto uses = c.storage().rows().uses_of(std::ssize(keys));
    for (size_t row = 0; row < n; ++row) {
      const auto table = static_cast<int64_t>(keys[row] >> 32);
      const auto key = static_cast<uint32_t>(keys[row]);
      CHECK(c.index.find(table, key) == static_cast<int64_t>(row));
      std::vector<float> first(3);
      c.storage().initial_values(table, key, first.data());
      for (int64_t j = 0; j < 3; ++j) {
        CHECK(c.storage().own().w.as<float>()(static_cast<int64_t>(row), j) ==
              first[static_cast<size_t>(j)]);
        CHECK(c.storage().own().state0(static_cast<int64_t>(row), j) == 0.25f);
      }
      CHECK((uses[row].count == 1 && uses[row].last == 0));
    }
    CHECK(c.index.find(0, 3) == embedding::KeyIndex::kAbsent);
    const VocabularyCounts counts = c.index.vocabulary();
    CHECK(counts.rows == static_cast<int64_t>(n));
    CHECK(counts.candidates == 0);
    CHECK((counts.inserted == before.inserted && counts.refused == before.refused));
    CHECK(counts.evicted() == 0);
  }
}

TEST_CASE("more keys than rows are refused with the first one that finds none") {
  ThreadPool pool(1);
  HashedCase c({.pool = &pool}, {1, 1}, 3, 2);
  const std::vector<uint64_t> three = {table_key(0, 5), table_key(1, 5), table_key(1, 0xfffffffe)};
  CHECK(message_of<DataError>([&] { c.index.assign(three); }) ==
        "embedding emb: its table is full: key 4294967294 of table 1 is new, and all 2 rows of its "
        "rank are taken; raise max_vocabulary_size_per_gpu");
}

}  // namespace hlite::test
