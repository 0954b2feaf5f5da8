#include "hugectr_lite/ops/concat.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

struct Case {
  int64_t rows, from_width, from_begin, to_width, to_begin, columns;
};
const Case kCases[] = {{0, 3, 0, 3, 0, 3},
                       {1, 1, 0, 1, 0, 1},
                       {7, 5, 2, 9, 4, 3},
                       {33, 16, 0, 40, 24, 16},
                       {5, 3, 1, 3, 1, 0},
                       {1031, 3, 1, 2, 0, 2},
                       {3, 1031, 7, 2000, 501, 1024},
                       {517, 130, 2, 129, 0, 128}};

void check(bool add) {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const Case& c : kCases) {
      const auto from = test::random_values(c.rows * c.from_width, 1);
      auto to = test::random_values(c.rows * c.to_width, 2), want = to;
      for (int64_t i = 0; i < c.rows; ++i) {
        for (int64_t j = 0; j < c.columns; ++j) {
          float& target = want[static_cast<size_t>(i * c.to_width + c.to_begin + j)];
          target = from[static_cast<size_t>(i * c.from_width + c.from_begin + j)] +
                   (add ? target : 0.0f);
        }
      }
      (add ? add_columns : copy_columns)(threads.exec(), {from.data(), c.rows, c.from_width},
                                         c.from_begin, {to.data(), c.rows, c.to_width}, c.to_begin,
                                         c.columns);
      CAPTURE(count, c.rows, c.columns);
      CHECK(to == want);  // other columns untouched
    }
  }
}

TEST_CASE("copy_columns copies exactly the named columns") { check(false); }
TEST_CASE("add_columns adds exactly the named columns") { check(true); }

TEST_CASE("column ops refuse what does not fit") {
  test::Threads threads(1);
  std::vector<float> m(100);
  const Matrix<float> from(m.data(), 4, 5), to(m.data() + 50, 4, 6), more(m.data() + 50, 5, 6);
  CHECK_THROWS_AS(copy_columns(threads.exec(), from, 0, more, 0, 5), Error);
  CHECK_THROWS_AS(copy_columns(threads.exec(), from, 1, to, 0, 5), Error);
  CHECK_THROWS_AS(copy_columns(threads.exec(), from, -1, to, 0, 2), Error);
  CHECK_THROWS_AS(add_columns(threads.exec(), from, 0, to, 2, 5), Error);
  CHECK_THROWS_AS(add_columns(threads.exec(), from, 0, to, 0, -1), Error);
  CHECK_NOTHROW(add_columns(threads.exec(), from, 0, to, 1, 5));
}

}  // namespace
}  // namespace hlite::ops
