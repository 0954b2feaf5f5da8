#include "hugectr_lite/preparation/synth/key_counts.h"

#include <map>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

TEST_CASE("counts are exact, whichever thread counts") {
  std::vector<int64_t> sizes(criteo::kSlots, 5);
  sizes[0] = 1024;
  sizes[1] = 1025;
  sizes[2] = 3000;
  const auto row = [&](uint64_t i) {
    Categories r{};
    for (size_t s = 0; s < r.size(); ++s)
      r[s] = random::word(3, s, i) % static_cast<uint32_t>(sizes[s]);
    return r;
  };
  constexpr int64_t kRows = 20011;
  std::vector<std::map<int64_t, int64_t>> expected(sizes.size());
  for (uint64_t i = 0; i < kRows; ++i) {
    const Categories r = row(i);
    for (size_t s = 0; s < r.size(); ++s) ++expected[s][r[s]];
  }
  for (const int threads : {1, 3}) {
    CategoryCounts counts(sizes, threads);
    ThreadPool pool(threads);
    pool.run(7, [&](int64_t task, int worker) {
      for (int64_t i = task; i < kRows; i += 7) counts.add(worker, row(static_cast<uint64_t>(i)));
    });
    CHECK(counts.rows() == kRows);
    for (int s : {0, 1, 2, 25}) {
      auto& e = expected[static_cast<size_t>(s)];
      for (int64_t c = 0; c < sizes[static_cast<size_t>(s)]; ++c)
        REQUIRE(counts.count(s, c) == e[c]);
      CHECK(counts.missing(s) == e[0]);
    }
  }
}

}  // namespace
}  // namespace hlite::prep
