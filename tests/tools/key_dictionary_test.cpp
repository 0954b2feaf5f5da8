#include "tools/key_dictionary.h"

#include <unordered_map>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::tools {
namespace {

TEST_CASE("ids follow the order of first appearance, through growth and collisions") {
  KeyDictionary dictionary;
  std::unordered_map<uint32_t, uint32_t> expected;
  for (uint64_t i = 0; i < 60000; ++i) {
    // Random keys, runs of neighbours, and keys that differ in their top bits alone.
    uint32_t key = random::word(3, 1, i) % 30000;
    if (i % 3 == 1) key = static_cast<uint32_t>(i / 7);
    if (i % 3 == 2) key <<= 17;
    const auto id = expected.try_emplace(key, static_cast<uint32_t>(expected.size())).first->second;
    REQUIRE(dictionary.id(key) == id);
  }
  CHECK(dictionary.size() == static_cast<int64_t>(expected.size()));
  CHECK(expected.size() > 20000);  // several times the first table
}

TEST_CASE("the extreme keys are keys like any other") {
  KeyDictionary dictionary;
  CHECK(dictionary.id(0xffffffffu) == 0);
  CHECK(dictionary.id(0) == 1);
  CHECK(dictionary.id(0xffffffffu) == 0);
  CHECK(dictionary.size() == 2);
}

}  // namespace
}  // namespace hlite::tools
