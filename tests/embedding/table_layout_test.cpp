#include "embedding/table_layout.h"

#include "tests/support/catch.h"

using namespace hlite;
using embedding::TableLayout;

TEST_CASE("TableLayout places tables one after another, with 64-bit rows") {
  const TableLayout layout({3, (int64_t{1} << 32) - 1, 1, 5}, 2);
  CHECK(layout.slots() == 4);
  CHECK(layout.offset ==
        std::vector<int64_t>{0, 3, (int64_t{1} << 32) + 2, (int64_t{1} << 32) + 3});
  CHECK(layout.total_rows == (int64_t{1} << 32) + 8);
  CHECK(TableLayout({}, 4).total_rows == 0);
}

TEST_CASE("TableLayout::table views one slot's rows") {
  const TableLayout layout({2, 1, 3}, 4);
  float data[24];
  const Matrix<float> all(data, 6, 4);
  CHECK(layout.table(all, 2).data() == data + 12);
  CHECK(layout.table(all, 2).dim(0) == 3);
  CHECK(layout.table(all, 1).dim(0) == 1);
}

TEST_CASE("TableLayout refuses empty tables, tables beyond 32-bit keys and no width") {
  CHECK_THROWS_AS(TableLayout({4, 0}, 8), ConfigError);
  CHECK_THROWS_AS(TableLayout({int64_t{1} << 32}, 8), ConfigError);
  CHECK_THROWS_AS(TableLayout({4}, 0), ConfigError);
}
