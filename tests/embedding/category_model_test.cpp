#include "embedding/category_model.h"

#include <map>
#include <set>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {
// The rows of HugeCTR's model test, as categories over tables of 100, 10, 10 and 20 rows.
std::vector<int64_t> golden_lookups() {
  const int64_t keys[8][4] = {{99, 3, 7, 19}, {0, 0, 0, 0},   {1, 1, 1, 1}, {2, 2, 2, 2},
                              {3, 3, 3, 3},   {50, 2, 4, 10}, {2, 2, 2, 2}, {1, 1, 1, 1}};
  const int64_t offset[4] = {0, 100, 110, 120};
  std::vector<int64_t> lookups;
  for (const auto& row : keys)
    for (int t = 0; t < 4; ++t) lookups.push_back(row[t] + offset[t]);
  return lookups;
}
}  // namespace

TEST_CASE("the published vector: order, owners and places") {
  const auto statistics = FrequencyStatistics::of_lookups(golden_lookups());
  CHECK(statistics.categories == std::vector<int64_t>{102, 1,   2,   101, 103, 111, 112, 121,
                                                      122, 0,   3,   50,  99,  100, 110, 113,
                                                      114, 117, 120, 123, 130, 139});
  ThresholdParameters p;
  p.batch = 4;
  p.iterations = 2;
  p.nodes = 2;
  p.ranks = 4;
  p.p_dup_max = 0.1;
  p.max_all_reduce_bandwidth = 4;
  p.max_all_to_all_bandwidth = 1;
  const double threshold = frequent_threshold(p);
  CHECK(threshold == 2);
  const CategoryModel model(SlotLayout({100, 10, 10, 20}, 4), 4, statistics, threshold, 12);
  CHECK(model.frequent() ==
        std::vector<int64_t>{102, 103, 122, 1, 0, 111, 2, 3, 112, 50, 101, 121});
  CHECK(model.infrequent_rows(1) == 32);
  const auto is = [&](int64_t category, int rank, uint32_t row) {
    const auto place = model.locate(category);
    return place.rank == rank && place.row == row;
  };
  CHECK(is(102, -1, 0));
  CHECK(is(121, -1, 11));
  CHECK(is(4, 0, 0));
  CHECK(is(49, 1, 11));
  CHECK(is(51, 2, 11));
  CHECK(is(139, 3, 31));
}

TEST_CASE("random models agree with the definition") {
  for (int round = 0; round < 60; ++round) {
    uint64_t drawn = 0;
    const auto draw = [&](uint32_t below) {
      return random::word(11, static_cast<uint64_t>(round), drawn++) % below;
    };
    std::vector<int64_t> rows(1 + draw(5));
    for (auto& r : rows) r = 1 + draw(round % 2 ? 200 : 4);
    const SlotLayout layout(rows, 1);
    const int ranks = 1 + static_cast<int>(draw(8));
    std::vector<int64_t> lookups(draw(500));
    for (auto& c : lookups) {
      const auto u = draw(1 << 16), v = draw(1 << 16);  // skewed
      c = int64_t{u} * v % layout.total_rows * (draw(3) ? 1 : 0);
    }
    const double threshold = 1 + draw(6);
    INFO("round " << round);
    const CategoryModel model(layout, ranks, FrequencyStatistics::of_lookups(lookups), threshold,
                              layout.total_rows);

    std::map<int64_t, int64_t> counts;
    for (const int64_t c : lookups) ++counts[c];
    int64_t reached = 0;
    for (const auto& [c, n] : counts) reached += static_cast<double>(n) >= threshold ? 1 : 0;
    const auto frequent = static_cast<int64_t>(model.frequent().size());
    CHECK(frequent % ranks == 0);
    CHECK(frequent > reached - ranks);
    CHECK(frequent < reached + ranks);
    // Nothing outside occurs more often than something inside.
    const std::set<int64_t> inside(model.frequent().begin(), model.frequent().end());
    CHECK(inside.size() == model.frequent().size());
    int64_t least = INT64_MAX, most = 0;
    for (const auto& [c, n] : counts) {
      if (inside.contains(c))
        least = std::min(least, n);
      else
        most = std::max(most, n);
    }
    CHECK(most <= least);

    int64_t k = 0;
    std::vector<int64_t> held(static_cast<size_t>(ranks), 0);
    bool good = true;
    for (int64_t c = 0; c < layout.total_rows; ++c) {
      const auto place = model.locate(c);
      if (inside.contains(c)) {
        good &= place.rank == -1 && model.frequent()[place.row] == c;
        continue;
      }
      good &= place.rank == k % ranks && place.row == k / ranks;
      good &= model.infrequent_category(place.rank, place.row) == c;
      ++held[static_cast<size_t>(place.rank)];
      ++k;
    }
    CHECK(good);
    for (int r = 0; r < ranks; ++r) CHECK(model.infrequent_rows(r) == held[static_cast<size_t>(r)]);
  }
}

TEST_CASE("too many frequent categories are refused") {
  const auto statistics = FrequencyStatistics::of_lookups({0, 0, 1, 1, 2, 2});
  test::check_contains(test::message_of<ConfigError>(
                           [&] { CategoryModel(SlotLayout({4}, 1), 1, statistics, 2, 2); }),
                       {"3 categories are frequent", "at most 2", "max_num_frequent_categories"});
}
