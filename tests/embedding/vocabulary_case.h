// Hashed layers whose keys get and lose rows by rules, for the tests: batches on two devices, and
// what must come of them.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "embedding/key_counter.h"
#include "tests/embedding/hashed_case.h"
#include "tests/support/catch.h"

namespace hlite::test {

inline std::vector<std::pair<const char*, embedding::VocabularyRules>> vocabulary_rules() {
  using namespace embedding;
  std::vector<std::pair<const char*, VocabularyRules>> list(6);
  list[0].first = "age";
  list[0].second.eviction = {.interval = 3, .steps_to_live = 4};
  list[1].first = "count";
  list[1].second.admission = {.type = AdmissionType::kCount, .threshold = 2};
  list[1].second.zeros = true;
  list[2].first = "count, few counted, age and count";
  list[2].second.admission = {.type = AdmissionType::kCount, .threshold = 3, .capacity = 60};
  list[2].second.eviction = {.interval = 3, .steps_to_live = 9, .min_count = 5, .count_decay = 0.5};
  list[3].first = "probability, norm";
  list[3].second.admission = {.type = AdmissionType::kProbability, .probability = 0.4};
  list[3].second.eviction = {.interval = 3, .min_l2_norm = 0.03};
  list[4].first = "full, evict";
  list[4].second.when_full = WhenFull::kEvict;
  list[4].second.eviction = {.interval = 3};
  list[5].first = "full, default, count";
  list[5].second.when_full = WhenFull::kDefault;
  list[5].second.admission = {.type = AdmissionType::kCount, .threshold = 2};
  return list;
}

// The words of a counter's tensors in a file, by name.
inline std::map<std::string, std::vector<uint32_t>> counted_words(const HashedCase& c) {
  std::map<std::string, std::vector<uint32_t>> words;
  if (!c.index.counter()) return words;
  for (const TensorRef& tensor : c.index.counter()->tensors({})) {
    std::vector<float> got(static_cast<size_t>(tensor.size()));
    tensor.get(0, got);
    auto& of = words[tensor.name];
    of.resize(got.size());
    if (!got.empty()) std::memcpy(of.data(), got.data(), got.size() * sizeof(float));
  }
  return words;
}

// Gives a counter what another one has in a file.
inline void read_counted(const HashedCase& from, HashedCase& into) {
  if (!into.index.counter()) return;
  const auto words = counted_words(from);
  into.index.counter()->read(
      [&](const std::string& name) -> std::optional<std::vector<uint32_t>> {
        if (words.count(name) == 0) return std::nullopt;
        return words.at(name);
      },
      [](int64_t, uint32_t) { return true; });
  for (const TensorRef& tensor : into.index.counter()->tensors({}))
    if (words.count(tensor.name) > 0) {
      std::vector<float> in(words.at(tensor.name).size());
      if (!in.empty())
        std::memcpy(in.data(), words.at(tensor.name).data(), in.size() * sizeof(float));
      tensor.put(0, in);
    }
}

// Rows of a rank: too few where that is no error.
inline int64_t capacity_for(const embedding::VocabularyRules& rules) {
  return rules.when_full == embedding::WhenFull::kError ? 300 : 60;
}

// Everything that an index knows of its keys: rows, uses and counted keys.
struct VocabularyState {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> uses;
  std::map<std::string, std::vector<uint32_t>> counted;
  embedding::VocabularyCounts counts;

  explicit VocabularyState(const HashedCase& c)
      : keys(c.index.keys()), counted(counted_words(c)), counts(c.index.vocabulary()) {
    for (const auto& use : c.storage().rows().uses_of(std::ssize(keys)))
      uses.insert(uses.end(), {use.count, use.last});
  }
};

inline void check_same(const VocabularyState& got, const VocabularyState& want) {
  CHECK((got.keys == want.keys));
  CHECK((got.uses == want.uses));
  CHECK((got.counted == want.counted));
  const auto numbers = [](const embedding::VocabularyCounts& n) {
    return std::vector<int64_t>{n.rows, n.candidates, n.inserted,  n.expired,
                                n.rare, n.small,      n.displaced, n.refused};
  };
  CHECK(numbers(got.counts) == numbers(want.counts));
}

}  // namespace hlite::test
