#include "hugectr_lite/preparation/engine/key_dictionary.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;

// Random keys, runs of neighbours, and keys that differ in their top bits alone.
template <typename Key>
std::vector<Key> some_keys(Key limit) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 60000; ++i) {
    Key key = static_cast<Key>(random::word(3, 1, i) % 30000);
    if (i % 3 == 1) key = static_cast<Key>(i / 7);
    if (i % 3 == 2) key = static_cast<Key>(key << (sizeof(Key) * 8 - 15));
    keys.push_back(limit > 0 ? static_cast<Key>(key % limit) : key);
  }
  return keys;
}

template <typename Key>
void check_ids(const std::vector<Key>& keys, Key limit, size_t batch) {
  MemoryBudget budget(kPlenty);
  {
    KeyDictionary<Key> dictionary(budget, limit);
    std::unordered_map<Key, uint32_t> expected;
    std::vector<uint32_t> ids(keys.size());
    for (size_t at = 0; at < keys.size(); at += batch)
      dictionary.number(&keys[at], std::min(batch, keys.size() - at), &ids[at]);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto next = static_cast<uint32_t>(expected.size());
      REQUIRE(ids[i] == expected.try_emplace(keys[i], next).first->second);
    }
    CHECK(dictionary.size() == static_cast<int64_t>(expected.size()));
    size_t visited = 0;
    dictionary.for_each([&](Key key, uint32_t id) {
      ++visited;
      CHECK(expected.at(key) == id);
    });
    CHECK(visited == expected.size());
    CHECK(dictionary.find(keys[17]) == ids[17]);
    CHECK(dictionary.bytes() > 0);
  }
  budget.take(kPlenty);  // everything was given back
}

TEST_CASE("ids follow the order of first appearance, through growth and collisions") {
  for (const size_t batch : {size_t{1}, size_t{17}, size_t{60000}}) {
    check_ids<uint32_t>(some_keys<uint32_t>(0), 0, batch);
    check_ids<uint64_t>(some_keys<uint64_t>(0), 0, batch);
  }
}

TEST_CASE("a dictionary becomes an array of ids where keys have a limit") {
  for (const uint32_t limit : {1u, 1000u, 5000u, 20011u}) {
    check_ids<uint32_t>(some_keys<uint32_t>(limit), limit, 4099);
    check_ids<uint64_t>(some_keys<uint64_t>(limit), limit, 4099);
  }
}

TEST_CASE("the extreme keys are keys like any other") {
  MemoryBudget budget(kPlenty);
  KeyDictionary<uint32_t> dictionary(budget);
  const uint32_t keys[] = {0xffffffffu, 0, 0xffffffffu};
  uint32_t ids[3];
  dictionary.number(keys, 3, ids);
  CHECK(ids[0] == 0);
  CHECK(ids[1] == 1);
  CHECK(ids[2] == 0);
  CHECK(dictionary.size() == 2);
  CHECK(dictionary.find(5) == -1);
}

TEST_CASE("a dictionary beyond its budget says what it wanted and stays usable") {
  MemoryBudget budget(100000);
  KeyDictionary<uint32_t> dictionary(budget);
  std::vector<uint32_t> keys(50000), ids(50000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint32_t>(i);
  CHECK_THROWS_AS(dictionary.number(keys.data(), keys.size(), ids.data()), OutOfBudget);
  CHECK(dictionary.find(0) == 0);
}

}  // namespace
}  // namespace hlite::prep
