// Admission and eviction of a hashed layer on the CPU, against their definition.
#include "tests/embedding/vocabulary_case.h"

#include <set>

#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using embedding::AdmissionType;
using embedding::kUnseen;
using embedding::RowUse;

// Keys that a batch has in the layer's columns, by table and key.
std::set<uint64_t> keys_of_batch(const HashedCase& c, const std::vector<uint32_t>& keys) {
  std::set<uint64_t> of;
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t s = c.layout().keys.slot_of(static_cast<int64_t>(i) % c.columns()) - 1;
    if (s >= 0 && s < c.layout().slots() && keys[i] != kNoKey)
      of.insert(embedding::table_key(c.layout().table_of[static_cast<size_t>(s)], keys[i]));
  }
  return of;
}

// A small weight that names its key.
float value_of(uint64_t key) { return static_cast<float>(key % 1000) * 1e-4f; }

}  // namespace

TEST_CASE("keys get their row in the batch that reaches the threshold, and every use is counted",
          "[threads]") {
  for (const int threads : {1, 3})
    for (const int64_t threshold : {1, 2, 4}) {
      ThreadPool pool(threads);
      embedding::VocabularyRules rules;
      rules.admission = {.type = AdmissionType::kCount, .threshold = threshold};
      HashedCase c({.pool = &pool}, {3, 1, 5}, 3, 5000, embedding::Combiner::kSum, {}, rules);
      std::map<uint64_t, RowUse> seen;
      for (uint32_t iteration = 1; iteration <= 12; ++iteration) {
        const auto keys = c.draw(40, 90, iteration);
        c.set_iterations(iteration - 1);
        const auto rows = c.find_rows(keys, true);
        for (const uint64_t key : keys_of_batch(c, keys)) {
          ++seen[key].count;
          seen[key].last = iteration;
        }
        CHECK(c.find_rows(keys, true) == rows);  // a run that is made again counts nothing
        CHECK(c.find_rows(keys, false) == rows);
        const auto uses = c.storage().rows().uses_of(std::ssize(c.index.keys()));
        int64_t with_row = 0;
        for (const auto& [key, use] : seen) {
          const int64_t row =
              c.index.find(static_cast<int64_t>(key >> 32), static_cast<uint32_t>(key));
          CHECK((row >= 0) == (use.count >= threshold));
          if (row < 0) continue;
          ++with_row;
          CHECK(uses[static_cast<size_t>(row)].count == use.count);
          CHECK(uses[static_cast<size_t>(row)].last == use.last);
        }
        CHECK(with_row == std::ssize(uses));
        const auto counted = c.index.counter()->entries();
        CHECK(std::ssize(counted) == std::ssize(seen) - with_row);
        for (const auto& of : counted) CHECK(of.use.count == seen[of.key].count);
      }
      CHECK(c.index.vocabulary().rows > 20);
      CHECK((c.index.vocabulary().refused > 0) == (threshold > 1));
    }
}

TEST_CASE("a key without a row has its default vector, zeros or its initial values", "[threads]") {
  ThreadPool pool(2);
  for (const bool zeros : {false, true}) {
    embedding::VocabularyRules rules;
    rules.admission = {.type = AdmissionType::kCount, .threshold = 9};
    rules.zeros = zeros;
    HashedCase c({.pool = &pool}, {1, 1}, 3, 10, embedding::Combiner::kSum, {}, rules);
    const std::vector<uint32_t> keys = {0, 0, 5, 8, 0};
    CHECK(c.find_rows(keys, true) == std::vector<uint32_t>{0, 0, kUnseen, kUnseen, 0});
    std::vector<float> want(6);
    if (!zeros) {
      c.storage().initial_values(0, 5, want.data());
      c.storage().initial_values(1, 8, want.data() + 3);
    }
    CHECK(c.look_up(keys) == want);
    CHECK(std::signbit(want[0]) == std::signbit(c.look_up(keys)[0]));
    const auto listed = c.take_list({{0, 5}, {1, 8}}, true);
    CHECK(listed.vectors == want);
    CHECK(listed.capacity_exceeded == 0);
  }
}

TEST_CASE("rows that leave close up with their values, states and uses", "[threads]") {
  for (const auto& [name, rules] : vocabulary_rules()) {
    INFO(name);
    ThreadPool pool(2);
    HashedCase c({.pool = &pool}, {2, 1}, 3, capacity_for(rules), embedding::Combiner::kSum, {},
                 rules);
    for (int64_t iteration = 1; iteration <= 18; ++iteration) {
      c.set_iterations(iteration - 1);
      (void)c.find_rows(c.draw(20, static_cast<uint32_t>(30 + iteration * 2), iteration), true);
      // Values that name their keys.
      const auto keys = c.index.keys();
      for (size_t row = 0; row < keys.size(); ++row) {
        const auto at = static_cast<int64_t>(row);
        if (iteration % 3 == 0) c.storage().own().w.as<float>().row(at)[1] = value_of(keys[row]);
        c.storage().own().state0.row(at)[2] = static_cast<float>(keys[row] % 999);
      }
      if (iteration % 3 != 0) continue;
      std::map<uint64_t, RowUse> before;
      const auto uses = c.storage().rows().uses_of(std::ssize(keys));
      for (size_t row = 0; row < keys.size(); ++row) before[keys[row]] = uses[row];
      c.index.evict(iteration, iteration - 3);
      const auto left = c.index.keys();
      const auto left_uses = c.storage().rows().uses_of(std::ssize(left));
      for (size_t row = 0; row < left.size(); ++row) {
        const auto at = static_cast<int64_t>(row);
        CHECK(c.index.find(static_cast<int64_t>(left[row] >> 32),
                           static_cast<uint32_t>(left[row])) == at);
        CHECK(c.storage().own().w.as<float>().row(at)[1] == value_of(left[row]));
        CHECK(c.storage().own().state0.row(at)[2] == static_cast<float>(left[row] % 999));
        CHECK(left_uses[row].last == before.at(left[row]).last);
        const uint32_t count = before.at(left[row]).count;
        CHECK(left_uses[row].count == (rules.eviction.count_decay < 1 ? count / 2 : count));
      }
      CHECK(std::set(left.begin(), left.end()).size() == left.size());
    }
    const auto counts = c.index.vocabulary();
    CHECK(counts.rows == counts.inserted - counts.evicted());
    const bool evicts = rules.eviction.any() || rules.when_full == embedding::WhenFull::kEvict;
    CHECK((counts.evicted() > 0) == evicts);
    CHECK((counts.refused > 0) == rules.refuses());
  }
}

}  // namespace hlite::test
