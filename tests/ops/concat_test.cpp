#include "hugectr_lite/ops/concat.h"

#include "hugectr_lite/core/error.h"
#include "tests/ops/column_cases.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

TEST_CASE("concat_columns writes the sum of the blocks to every column") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const test::ColumnCase& c : test::column_cases()) {
      const test::ColumnInputs inputs(c);
      std::vector<float> out(static_cast<size_t>(c.rows * c.width), NAN);
      concat_columns(threads.exec(), inputs.blocks(), {out.data(), c.rows, c.width});
      INFO(c.text() << ", " << count << " threads");
      CHECK(out == inputs.sums());
    }
  }
}

TEST_CASE("concat_columns copies what one block covers bit by bit") {
  test::Threads threads(1);
  const float from[] = {-0.0f, 1};
  float to[] = {7, 7};
  const ColumnBlock<float> blocks[] = {{{from, 1, 2}, 0, 0, 1}, {{from, 1, 2}, 0, 1, 1}};
  concat_columns(threads.exec(), blocks, {to, 1, 2});
  CHECK(std::signbit(to[0]));
  CHECK(std::signbit(to[1]));
}

TEST_CASE("concat_columns refuses what does not fit") {
  test::Threads threads(1);
  std::vector<float> m(100);
  const Matrix<float> from(m.data(), 4, 5), to(m.data() + 50, 4, 6), more(m.data() + 50, 5, 6);
  const auto run = [&](const Matrix<float>& out, int64_t from_begin, int64_t to_begin,
                       int64_t columns) {
    const ColumnBlock<float> block{from, from_begin, to_begin, columns};
    concat_columns(threads.exec(), {&block, 1}, out);
  };
  CHECK_THROWS_AS(run(more, 0, 0, 5), Error);
  CHECK_THROWS_AS(run(to, 1, 0, 5), Error);
  CHECK_THROWS_AS(run(to, -1, 0, 2), Error);
  CHECK_THROWS_AS(run(to, 0, 2, 5), Error);
  CHECK_THROWS_AS(run(to, 0, -1, 5), Error);
  CHECK_THROWS_AS(run(to, 0, 0, -1), Error);
  CHECK_NOTHROW(run(to, 0, 1, 5));
}

}  // namespace
}  // namespace hlite::ops
