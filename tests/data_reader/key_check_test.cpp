#include "data_reader/key_check.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using config::KeyPolicy;

TEST_CASE("a key layout gives each slot its columns") {
  const KeyLayout layout({2, 1, 3});
  CHECK(layout.slots() == 3);
  CHECK(layout.columns == 6);
  CHECK(layout.first_column == std::vector<int64_t>{0, 2, 3});
  CHECK(!layout.is_one_hot());
  for (int64_t c = 0; c < 6; ++c) CHECK(layout.slot_of(c) == (c < 2 ? 0 : c < 3 ? 1 : 2));
  CHECK(layout.describe(2) == "key of slot 1");
  CHECK(layout.describe(5) == "key 2 of slot 2");
  CHECK(KeyLayout::one_hot(4).is_one_hot());
  CHECK(KeyLayout::one_hot(4).columns == 4);
  CHECK(KeyLayout::one_hot(0).columns == 0);
  CHECK(KeyLayout().slots() == 0);
  CHECK_THROWS_AS(KeyLayout({1, 0}), Error);
}

TEST_CASE("keys outside of their table are found, and replaced as the policy says") {
  const KeyLayout layout({2, 1, 1});
  const std::vector<int64_t> rows{10, 1, (int64_t{1} << 32) - 1};
  const KeyCheck error(layout, rows), clamp(layout, rows, {KeyPolicy::kClamp, 0}),
      oov(layout, rows, {KeyPolicy::kOov, 0});
  CHECK(!error.replaces());
  CHECK(error.last_key(1) == 9);
  CHECK(error.last_key(2) == 0);
  CHECK(error.last_key(3) == 0xfffffffe);
  struct Row {
    std::vector<uint32_t> keys, clamped, oov;
    int64_t replaced;
  };
  for (const Row& row :
       {Row{{9, 0, 0, 5}, {9, 0, 0, 5}, {9, 0, 0, 5}, 0},
        Row{{10, 3, 0, 5}, {9, 3, 0, 5}, {0, 3, 0, 5}, 1},
        Row{{3, 0xffffffff, 1, 0xffffffff}, {3, 9, 0, 0xfffffffe}, {3, 0, 0, 0}, 3}}) {
    CHECK(error.any_outside(row.keys.data()) == (row.replaced > 0));
    std::vector<uint32_t> keys = row.keys;
    CHECK(clamp.replace(keys.data()) == row.replaced);
    CHECK(keys == row.clamped);
    keys = row.keys;
    CHECK(oov.replace(keys.data()) == row.replaced);
    CHECK(keys == row.oov);
  }
}

TEST_CASE("a sample may lack keys in slots that vary, and in no others") {
  const KeyLayout layout({2, 1, 1});
  const std::vector<int64_t> rows{10, 1, (int64_t{1} << 32) - 1};
  const std::vector<bool> varying{true, false, true};
  const KeyCheck error(layout, rows, {}, false, varying);
  const KeyCheck clamp(layout, rows, {KeyPolicy::kClamp, 0}, false, varying);
  struct Row {
    std::vector<uint32_t> keys, clamped;
    int64_t replaced;
  };
  for (const Row& row : {Row{{kNoKey, 9, 0, kNoKey}, {kNoKey, 9, 0, kNoKey}, 0},
                         Row{{10, kNoKey, 0, 0xfffffffe}, {9, kNoKey, 0, 0xfffffffe}, 1},
                         Row{{0, 0xfffffffe, kNoKey, 0}, {0, 9, 0, 0}, 2}}) {
    CHECK(error.any_outside(row.keys.data()) == (row.replaced > 0));
    for (int64_t c = 0; c < 4; ++c)
      CHECK(error.is_outside(c, row.keys[static_cast<size_t>(c)]) ==
            (row.keys[static_cast<size_t>(c)] != row.clamped[static_cast<size_t>(c)]));
    std::vector<uint32_t> keys = row.keys;
    CHECK(clamp.replace(keys.data()) == row.replaced);
    CHECK(keys == row.clamped);
  }
}

TEST_CASE("a key for unknown values has to be in every table") {
  const std::vector<int64_t> rows{10, 4};
  const KeyCheck fits(KeyLayout({1, 2}), rows, {KeyPolicy::kOov, 3});
  CHECK(fits.replacement(2) == 3);
  CHECK(test::message_of<ConfigError>([&] {
          KeyCheck(KeyLayout({1, 2}), rows, {KeyPolicy::kOov, 4});
        }) == "oov_key: expected a key of every table, found 4: slot 1 has 4 rows");
}

TEST_CASE("global keys count on from the tables before theirs") {
  const KeyLayout layout({2, 1, 1});
  const std::vector<int64_t> rows{10, 1, (int64_t{1} << 32) - 1};
  const KeyCheck local(layout, rows), global(layout, rows, {}, /*global=*/true);
  for (int64_t c = 0; c < 4; ++c) {
    CHECK(local.first_key(c) == 0);
    CHECK(local.local_key(c, 7) == 7);
    CHECK(global.last_key(c) == local.last_key(c));
  }
  CHECK(global.first_key(1) == 0);
  CHECK(global.first_key(2) == 10);
  CHECK(global.first_key(3) == 11);
  CHECK(global.local_key(3, 15) == 4);
  CHECK(global.local_key(2, 9) > global.last_key(2));  // of the table before
}
