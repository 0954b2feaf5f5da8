#include "embedding/key_index.h"

#include <unordered_map>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using embedding::KeyIndex;

TEST_CASE("a key index agrees with a map, up to the last row") {
  for (const int64_t capacity : {1, 2, 3, 7, 64, 1000}) {
    for (const uint64_t spread : {uint64_t{1}, uint64_t{1} << 32, uint64_t{0x9E3779B97F4A7C15u}}) {
      INFO("capacity " << capacity << ", keys " << spread << " apart");
      KeyIndex index("e", capacity);
      std::unordered_map<uint64_t, int64_t> oracle;
      bool good = true;
      for (uint64_t n = 0; n < 5000; ++n) {
        const uint64_t key =
            random::word(9, spread, n) % static_cast<uint64_t>(2 * capacity) * spread;
        const auto found = oracle.find(key);
        good &= index.find(key) == (found == oracle.end() ? KeyIndex::kAbsent : found->second);
        if (found == oracle.end() && index.size() == capacity) continue;
        const auto row = static_cast<int64_t>(oracle.size());
        good &= index.insert(key) == oracle.try_emplace(key, row).first->second;
      }
      CHECK(good);
      CHECK(index.size() == capacity);
      for (int64_t row = 0; row < capacity; ++row)
        good &= oracle[index.keys()[static_cast<size_t>(row)]] == row;
      CHECK(good);
    }
  }
}

TEST_CASE("keys that leave a key index let the others close up") {
  for (const int64_t capacity : {1, 2, 7, 64, 1000})
    for (const uint64_t spread : {uint64_t{1}, uint64_t{1} << 32, uint64_t{0x9E3779B97F4A7C15u}}) {
      INFO("capacity " << capacity << ", keys " << spread << " apart");
      KeyIndex index("e", capacity);
      std::vector<uint64_t> keys;  // by row
      for (uint64_t turn = 0; turn < 40; ++turn) {
        for (uint64_t n = 0; std::ssize(keys) < capacity && n < 300; ++n) {
          const uint64_t key = (300 * turn + n) * spread;
          CHECK(index.insert(key) == std::ssize(keys));
          keys.push_back(key);
        }
        std::vector<uint32_t> gone;
        for (uint32_t row = 0; row < keys.size(); ++row)
          if (random::word(turn, 7, row) % 5 < turn % 6) gone.push_back(row);
        const embedding::RowMoves moves = embedding::closing_moves(std::ssize(keys), gone);
        index.close_up(moves, gone);
        std::vector<uint64_t> left = keys;
        for (size_t i = 0; i < moves.from.size(); ++i) left[moves.to[i]] = keys[moves.from[i]];
        left.resize(keys.size() - gone.size());
        bool good = std::ranges::equal(index.keys(), left);
        for (const uint32_t row : gone) good &= index.find(keys[row]) == KeyIndex::kAbsent;
        for (size_t row = 0; row < left.size(); ++row)
          good &= index.find(left[row]) == static_cast<int64_t>(row);
        CHECK(good);
        keys = left;
      }
    }
}

TEST_CASE("key 0 and the largest key are keys like others") {
  KeyIndex index("e", 2);
  CHECK(index.find(0) == KeyIndex::kAbsent);
  CHECK(index.insert(~uint64_t{0}) == 0);
  CHECK(index.insert(0) == 1);
  CHECK(index.find(0) == 1);
}

TEST_CASE("a full table refuses new keys by name and keeps the old ones") {
  KeyIndex index("sparse_embedding1", 3);
  for (const uint64_t key : {10, 20, 30}) index.insert(key);
  test::check_contains(
      test::message_of<DataError>([&] { index.insert(40); }),
      {"sparse_embedding1", "key 40", "all 3 rows", "max_vocabulary_size_per_gpu"});
  CHECK(index.insert(20) == 1);
  CHECK(index.size() == 3);
  index.clear();
  CHECK(index.find(20) == KeyIndex::kAbsent);
  CHECK(index.insert(40) == 0);
}
