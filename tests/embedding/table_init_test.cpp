#include "embedding/table_init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

using namespace hlite;
using embedding::init_table_rows;
using embedding::init_tables;
using embedding::SlotLayout;

namespace {
std::vector<float> filled(const SlotLayout& layout, int threads, uint64_t seed = 9) {
  ThreadPool pool(threads);
  std::vector<float> values(static_cast<size_t>(layout.total_rows * layout.width));
  init_tables({.pool = &pool}, seed, "emb", layout,
              {values.data(), layout.total_rows, layout.width});
  return values;
}
}  // namespace

TEST_CASE("init_tables draws each table from its own stream within its own bound", "[threads]") {
  const SlotLayout layout({5, 1, 100, 7}, 3);
  const std::vector<float> got = filled(layout, 2);
  for (int64_t s = 0; s < layout.slots(); ++s) {
    const auto i = static_cast<size_t>(s);
    const double bound = 1 / std::sqrt(static_cast<double>(layout.rows[i]));
    const uint64_t stream = random::stream_of("emb.table_" + std::to_string(s));
    for (int64_t e = 0; e < layout.rows[i] * 3; ++e) {
      const double u =
          static_cast<double>(random::uniform(random::word(9, stream, static_cast<uint64_t>(e))));
      const double want = bound * (2 * u - 1);
      const auto value = static_cast<double>(got[static_cast<size_t>(layout.offset[i] * 3 + e)]);
      REQUIRE(std::abs(value - want) < 2e-7);
      REQUIRE(std::abs(value) <= bound * (1 + 1e-6));
    }
  }
}

TEST_CASE("init_tables gives the same bits on any number of threads, others for another seed",
          "[threads]") {
  const SlotLayout layout({70001, 3, 40000}, 16);  // several tasks
  const std::vector<float> one = filled(layout, 1);
  CHECK(filled(layout, 2) == one);
  CHECK(filled(layout, 3) == one);
  CHECK(filled(layout, 1, 10) != one);
}

TEST_CASE("init_table_rows fills a part of a table as the whole would be") {
  const SlotLayout layout({50}, 5);
  const std::vector<float> whole = filled(layout, 1);
  ThreadPool pool(1);
  std::vector<float> part(13 * 5);
  init_table_rows({.pool = &pool}, 9, "emb.table_0", 50, 31, Matrix<float>(part.data(), 13, 5));
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 31 * 5));
  CHECK_THROWS_AS(
      init_table_rows({.pool = &pool}, 9, "x", 50, 38, Matrix<float>(part.data(), 13, 5)), Error);
}
