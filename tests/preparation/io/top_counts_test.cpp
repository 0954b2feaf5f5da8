#include "hugectr_lite/preparation/io/top_counts.h"

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

TEST_CASE("the most frequent things are found in any order, with ties and without") {
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{9}, size_t{10}, size_t{1000}, size_t{1001}, size_t{5000}}) {
    std::vector<int64_t> counts;
    int64_t all = 0;
    TopCounts top;
    for (size_t i = 0; i < n; ++i) {
      // Many are equal, some far above 32 bits.
      const uint32_t word = random::word(7, 1, i);
      counts.push_back(word % 97 == 0 ? int64_t{word} << 20 : word % 50);
      all += counts.back();
      top.add(counts.back());
    }
    double shares[4];
    top.shares(all, shares);
    std::sort(counts.begin(), counts.end(), std::greater<>());
    for (size_t k = 0; k < 4; ++k) {
      int64_t sum = 0;
      for (size_t i = 0; i < n && static_cast<int64_t>(i) < TopCounts::kTop[k]; ++i)
        sum += counts[i];
      INFO(n << " counts, top " << TopCounts::kTop[k]);
      CHECK(shares[k] == (all > 0 ? static_cast<double>(sum) / static_cast<double>(all) : 0.0));
    }
  }
}

}  // namespace
}  // namespace hlite::prep
