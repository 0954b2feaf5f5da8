#include "embedding/key_sort.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/key_layout.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

using namespace hlite;

TEST_CASE("sort_pairs orders by key, then sample, for tables of every number of digits") {
  const int64_t rows_of[] = {
      1, 2, 3, 2048, 2049, 1 << 22, 5000011, 1 << 23, (int64_t{1} << 32) - 1};
  for (const int64_t rows : rows_of) {
    for (const int64_t batch : {0, 1, 2, 7, 500, 2048}) {
      constexpr int64_t kSlots = 3, kSlot = 1;
      std::vector<uint32_t> keys(static_cast<size_t>(batch * kSlots), 0xffffffffu);
      std::vector<uint64_t> want;
      for (int64_t b = 0; b < batch; ++b) {
        const uint32_t word = random::word(4, 5, static_cast<uint64_t>(b));
        // Every third key repeats an earlier one; the last row occurs too.
        const uint64_t key = b == 1       ? static_cast<uint64_t>(rows - 1)
                             : b % 3 == 2 ? want[static_cast<size_t>(b / 2)] >> 32
                                          : word % static_cast<uint64_t>(rows);
        keys[static_cast<size_t>(b * kSlots + kSlot)] = static_cast<uint32_t>(key);
        want.push_back(embedding::pair_of(static_cast<uint32_t>(key), b));
      }
      std::sort(want.begin(), want.end());
      std::vector<uint64_t> got(want.size()), scratch(want.size());
      std::vector<uint32_t> counts(embedding::kSortCounts, 77);
      CHECK(embedding::sort_pairs({keys.data(), batch, kSlots}, kSlot, 1, rows, got.data(),
                                  scratch.data(), counts.data()) == batch);
      INFO("rows " << rows << ", batch " << batch);
      CHECK(got == want);
    }
  }
}

TEST_CASE("sort_pairs takes all keys of several columns, and leaves missing ones out") {
  constexpr int64_t kColumns = 9, kColumn = 2, kHotness = 5, kBatch = 333;
  for (const int64_t rows : {1, 3, 3000, 1 << 23}) {
    std::vector<uint32_t> keys(static_cast<size_t>(kBatch * kColumns), kNoKey - 1);
    std::vector<uint64_t> want;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t k = 0; k < kHotness; ++k) {
        const uint32_t word = random::word(4, static_cast<uint64_t>(k), static_cast<uint64_t>(b));
        const bool missing = word % 4 == 0;
        const uint32_t key = missing ? kNoKey : word / 4 % static_cast<uint32_t>(rows);
        keys[static_cast<size_t>(b * kColumns + kColumn + k)] = key;
        if (!missing) want.push_back(embedding::pair_of(key, b));
      }
    std::sort(want.begin(), want.end());
    std::vector<uint64_t> got(kBatch * kHotness), scratch(got.size());
    std::vector<uint32_t> counts(embedding::kSortCounts);
    const int64_t n = embedding::sort_pairs({keys.data(), kBatch, kColumns}, kColumn, kHotness,
                                            rows, got.data(), scratch.data(), counts.data());
    got.resize(static_cast<size_t>(n));
    CHECK(got == want);
  }
}

TEST_CASE("pairs hold any key and sample") {
  const uint64_t pair = embedding::pair_of(0xffffffffu, 0xfffffffe);
  CHECK(embedding::key_of(pair) == 0xffffffff);
  CHECK(embedding::sample_of(pair) == 0xfffffffe);
}
