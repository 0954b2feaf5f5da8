#include "embedding/slot_layout.h"

#include "tests/support/catch.h"

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

TEST_CASE("SlotLayout::table views one slot's rows") {
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
