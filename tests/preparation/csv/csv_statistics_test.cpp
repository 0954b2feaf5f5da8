#include "hugectr_lite/preparation/csv/csv_statistics.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/memory_bytes.h"

namespace hlite::prep {
namespace {

using test::MemoryBytes;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

DenseStatistics of(const std::vector<double>& values, int64_t rows, int threads) {
  ThreadPool pool(threads);
  return dense_statistics(MemoryBytes("column", std::as_bytes(std::span(values))), rows, pool);
}

TEST_CASE("statistics of a column are those of the definition, for any number of threads",
          "[threads]") {
  // Far from zero, where sums of squares would have nothing left; some missing.
  std::vector<double> values(200003);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t draw = random::word(1, 2, i);
    values[i] = draw % 11 == 0 ? kNaN : 1e9 + random::uniform(draw);
  }
  for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{65536}, int64_t{200003}}) {
    long double sum = 0, squares = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const double x = values[static_cast<size_t>(i)];
      if (std::isnan(x)) continue;
      ++count;
      sum += x;
    }
    const long double mean = count > 0 ? sum / static_cast<long double>(count) : 0;
    for (int64_t i = 0; i < rows; ++i) {
      const double x = values[static_cast<size_t>(i)];
      if (!std::isnan(x)) squares += (x - mean) * (x - mean);
    }
    const DenseStatistics one = of(values, rows, 1);
    CHECK(one.count == count);
    CHECK(std::abs(one.mean - static_cast<double>(mean)) < 2e-5);
    if (count > 1)
      CHECK(one.deviation() ==
            Approx(static_cast<double>(std::sqrt(squares / static_cast<long double>(count))))
                .epsilon(1e-6));
    else
      CHECK(one.deviation() == 1.0);
    for (const int threads : {2, 5}) {
      const DenseStatistics some = of(values, rows, threads);
      CHECK(some.mean == one.mean);
      CHECK(some.squares == one.squares);
    }
  }
}

TEST_CASE("a column without values or of one value has deviation 1") {
  CHECK(of({kNaN, kNaN}, 2, 1).count == 0);
  CHECK(of({kNaN, kNaN}, 2, 1).deviation() == 1.0);
  CHECK(of({3, 3, 3}, 3, 1).deviation() == 1.0);
  CHECK(of({3, 3, 3}, 3, 1).mean == 3.0);
}

}  // namespace
}  // namespace hlite::prep
