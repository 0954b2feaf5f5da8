#include "embedding/slot_layout.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using embedding::SlotLayout;

TEST_CASE("SlotLayout places tables one after another, with 64-bit rows") {
  const SlotLayout layout({3, (int64_t{1} << 32) - 1, 1, 5}, 2);
  CHECK(layout.slots() == 4);
  CHECK(layout.offset ==
        std::vector<int64_t>{0, 3, (int64_t{1} << 32) + 2, (int64_t{1} << 32) + 3});
  CHECK(layout.total_rows == (int64_t{1} << 32) + 8);
  CHECK(SlotLayout({}, 4).total_rows == 0);
}

TEST_CASE("SlotLayout::table views one table's rows") {
  const SlotLayout layout({2, 1, 3}, 4);
  float data[24];
  const Matrix<float> all(data, 6, 4);
  CHECK(layout.table(all, 2).data() == data + 12);
  CHECK(layout.table(all, 2).dim(0) == 3);
  CHECK(layout.table(all, 1).dim(0) == 1);
}

TEST_CASE("SlotLayout refuses empty tables, tables beyond 32-bit keys and no width") {
  CHECK_THROWS_AS(SlotLayout({4, 0}, 8), ConfigError);
  CHECK_THROWS_AS(SlotLayout({int64_t{1} << 32}, 8), ConfigError);
  CHECK_THROWS_AS(SlotLayout({4}, 0), ConfigError);
}

TEST_CASE("slots that share a table have its rows, and lookups of both are the table's") {
  const SlotLayout layout({5, 3, 5, 5}, 2, KeyLayout({9, 1, 2, 3, 1}), embedding::Combiner::kSum, 1,
                          {0, 1, 0, 0});
  CHECK(layout.slots() == 4);
  CHECK(layout.tables() == 2);
  CHECK(layout.offset == std::vector<int64_t>{0, 5, 0, 0});
  CHECK(layout.table_rows == std::vector<int64_t>{5, 3});
  CHECK(layout.table_offset == std::vector<int64_t>{0, 5});
  CHECK(layout.table_slots == std::vector<std::vector<int64_t>>{{0, 2, 3}, {1}});
  CHECK(layout.table_lookups(0) == 5);
  CHECK(layout.max_table_lookups() == 5);
  CHECK(layout.total_rows == 8);
  const SlotLayout pool = layout.pooled(77);
  CHECK(pool.table_of == layout.table_of);
  CHECK(pool.rows == std::vector<int64_t>(4, 77));
  CHECK(pool.table_rows == std::vector<int64_t>(2, 77));
  CHECK(pool.table_offset == std::vector<int64_t>(2, 0));
}

TEST_CASE("SlotLayout refuses tables of two sizes, and numbers that leave one out") {
  const auto message = [](std::vector<int64_t> rows, std::vector<int64_t> tables) {
    return test::message_of<ConfigError>([&] {
      (void)SlotLayout(rows, 2, KeyLayout::one_hot(std::ssize(rows)), embedding::Combiner::kSum, 0,
                       tables);
    });
  };
  test::check_contains(message({4, 5, 6}, {0, 1, 0}), {"slots 0 and 2", "table 0", "4 and 6"});
  test::check_contains(message({4, 4}, {1, 0}), {"at most 0 for slot 0, found 1"});
  test::check_contains(message({4, 4, 4}, {0, 2, 1}), {"at most 1 for slot 1, found 2"});
  test::check_contains(message({4, 4}, {0}), {"each of 2 slots, found 1"});
}
