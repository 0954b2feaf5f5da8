#include "embedding/frequency.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace hlite::embedding;

TEST_CASE("categories are sorted by count, then by number") {
  const auto s = FrequencyStatistics::of_lookups({5, 1, 9, 5, 1, 7});
  CHECK(s.categories == std::vector<int64_t>{1, 5, 7, 9});
  CHECK(s.counts == std::vector<int64_t>{2, 2, 1, 1});
  const uint32_t counts[] = {0, 2, 0, 0, 0, 2, 0, 1, 0, 1};
  const auto same = FrequencyStatistics::of_counts(counts);
  CHECK(same.categories == s.categories);
  CHECK(same.counts == s.counts);
  CHECK(FrequencyStatistics::of_lookups({}).categories.empty());
}

TEST_CASE("the thresholds of the published MLPerf configs") {
  ThresholdParameters p;
  p.communication = CommunicationType::kNvlinkSingleNode;
  p.batch = 55296;
  p.iterations = 20;
  p.ranks = 8;
  CHECK(frequent_threshold(p) == Approx(22.63).margin(0.005));
  p.communication = CommunicationType::kIbNvlinkHierarchical;
  p.batch = 71680;
  p.nodes = 8;
  p.ranks = 64;
  CHECK(frequent_threshold(p) == Approx(267.25).margin(0.005));
  p.nodes = 14;
  p.ranks = 112;
  CHECK(frequent_threshold(p) == Approx(440.7).margin(0.05));
}

TEST_CASE("no threshold divides by zero") {
  ThresholdParameters p;
  p.batch = 64;
  for (const auto type : {CommunicationType::kNvlinkSingleNode, CommunicationType::kIbNvlink,
                          CommunicationType::kIbNvlinkHierarchical}) {
    p.communication = type;
    p.nodes = p.ranks = 1;
    CHECK(std::isinf(frequent_threshold(p)));  // one rank: everything is at hand
    p.ranks = 4;
    CHECK(std::isfinite(frequent_threshold(p)));  // one node
    CHECK(frequent_threshold(p) > 0);
  }
  p.communication = CommunicationType::kNvlinkSingleNode;
  p.ranks = 64;  // one sample a rank: no duplicates
  CHECK(std::isinf(frequent_threshold(p)));
}
