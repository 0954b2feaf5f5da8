#include "hugectr_lite/predict/useful_threads.h"

#include "tests/support/catch.h"

using hlite::predict::useful_threads;

TEST_CASE("a short prediction uses one thread, a long one all") {
  CHECK(useful_threads(8, 3000, 16'000) == 1);
  CHECK(useful_threads(8, 3000, 100'000) == 3);
  CHECK(useful_threads(8, 3000, 10'000'000) == 8);
  CHECK(useful_threads(8, 2'500'000, 20) == 1);
  CHECK(useful_threads(8, 2'500'000, 200) == 5);
  CHECK(useful_threads(8, int64_t{1} << 40, 4) == 4);
  CHECK(useful_threads(8, 0, 16'000) == 1);
  CHECK(useful_threads(1, int64_t{1} << 40, int64_t{1} << 40) == 1);
}
