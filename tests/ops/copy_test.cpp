#include "hugectr_lite/ops/copy.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cast.h"
#include "tests/ops/random_tensor.h"

namespace hlite::ops {
namespace {

TEST_CASE("copy, and a cast from float to float, give the same values") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t n : {0, 1, 7, 33, 50021}) {
      const auto from = test::random_values(n, 1);
      const Vector<const float> view(from.data(), n);
      std::vector<float> to(from.size(), NAN);
      CAPTURE(count, n);
      copy(threads.exec(), view, {to.data(), n});
      CHECK(to == from);
      to.assign(from.size(), NAN);
      cast_from_float<float>(threads.exec(), view, {to.data(), n});
      CHECK(to == from);
      to.assign(from.size(), NAN);
      cast_to_float<float>(threads.exec(), view, {to.data(), n});
      CHECK(to == from);
    }
  }
}

TEST_CASE("cast_padded fills columns up with zeros") {
  for (const int count : test::kThreadCounts) {
    test::Threads threads(count);
    for (const int64_t rows : {0, 1, 31, 4099})
      for (const auto& [width, columns] : {std::pair<int64_t, int64_t>{13, 16}, {1, 1}, {0, 8}}) {
        CAPTURE(count, rows, width, columns);
        const auto from = test::random_values(rows * width, 1);
        std::vector<float> to(static_cast<size_t>(rows * columns), NAN), want;
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t i = 0; i < columns; ++i)
            want.push_back(i < width ? from[static_cast<size_t>(row * width + i)] : 0.0f);
        cast_padded<float>(threads.exec(), {from.data(), rows, width}, {to.data(), rows, columns});
        CHECK(to == want);
      }
  }
}

TEST_CASE("copy and casts refuse sizes that do not fit; 16-bit casts need a GPU") {
  test::Threads threads(1);
  std::vector<float> m(10);
  std::vector<bf16> half(5);
  const Vector<float> four(m.data(), 4), five(m.data() + 4, 5);
  CHECK_THROWS_AS(copy(threads.exec(), four, five), Error);
  CHECK_THROWS_AS(cast_from_float<float>(threads.exec(), four, five), Error);
  CHECK_THROWS_AS(cast_to_float<float>(threads.exec(), four, five), Error);
  CHECK_THROWS_AS(cast_from_float<bf16>(threads.exec(), five, {half.data(), 5}), Error);
  const Matrix<float> narrow(m.data(), 2, 2), wide(m.data() + 4, 2, 3);
  CHECK_THROWS_AS(cast_padded<float>(threads.exec(), wide, narrow), Error);
  CHECK_THROWS_AS(cast_padded<bf16>(threads.exec(), narrow, {half.data(), 2, 2}), Error);
}

}  // namespace
}  // namespace hlite::ops
