#include "embedding/key_sort.h"

#include <algorithm>
#include <vector>

#include "embedding/device_slots.h"
#include "hugectr_lite/core/key_layout.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

using namespace hlite;

TEST_CASE("sort_bags orders by key, then sample, for tables of every number of digits") {
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
      const embedding::DeviceSlots slots(
          {}, embedding::SlotLayout({rows}, 1, KeyLayout::one_hot(kSlots),
                                    embedding::Combiner::kSum, kSlot));
      CHECK(embedding::sort_bags({{keys.data(), batch, kSlots}, slots.ref(), 0, rows}, got.data(),
                                 scratch.data(), counts.data()) == batch);
      INFO("rows " << rows << ", batch " << batch);
      CHECK(got == want);
    }
  }
}

TEST_CASE("a table's sorted lookups are those of all its slots, without missing keys") {
  // The layer's slots 0 and 2 share table 0; slots of other layers lie before and after.
  const KeyLayout layout({2, 5, 1, 3, 1});
  constexpr int64_t kBatch = 333;
  const int64_t columns = layout.columns;
  for (const int64_t rows : {1, 3, 3000, 1 << 23}) {
    const embedding::DeviceSlots slots(
        {},
        embedding::SlotLayout({rows, 7, rows}, 1, layout, embedding::Combiner::kSum, 1, {0, 1, 0}));
    std::vector<uint32_t> keys(static_cast<size_t>(kBatch * columns), kNoKey - 1);
    std::vector<uint64_t> bags, places;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t slot = layout.slot_of(c) - 1;
        if (slot != 0 && slot != 2) continue;
        const uint32_t word = random::word(4, static_cast<uint64_t>(c), static_cast<uint64_t>(b));
        const bool missing = word % 4 == 0;
        const uint32_t key = missing ? kNoKey : word / 4 % static_cast<uint32_t>(rows);
        keys[static_cast<size_t>(b * columns + c)] = key;
        if (missing) continue;
        bags.push_back(embedding::pair_of(key, b * 3 + slot));
        places.push_back(embedding::pair_of(key, b * columns + c));
      }
    std::sort(bags.begin(), bags.end());
    std::sort(places.begin(), places.end());
    std::vector<uint64_t> got(kBatch * 8), scratch(got.size());
    std::vector<uint32_t> counts(embedding::kSortCounts);
    const embedding::TableLookups lookups{{keys.data(), kBatch, columns}, slots.ref(), 0, rows};
    const auto check = [&](int64_t n, const std::vector<uint64_t>& want) {
      REQUIRE(n == std::ssize(want));
      CHECK(std::equal(want.begin(), want.end(), got.begin()));
    };
    check(embedding::sort_bags(lookups, got.data(), scratch.data(), counts.data()), bags);
    check(embedding::sort_places(lookups, got.data(), scratch.data(), counts.data()), places);
  }
}

TEST_CASE("pairs hold any key and number") {
  const uint64_t pair = embedding::pair_of(0xffffffffu, 0xfffffffe);
  CHECK(embedding::key_of(pair) == 0xffffffff);
  CHECK(embedding::number_of(pair) == 0xfffffffe);
}
