#include "embedding/key_frequencies.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace hlite;
using namespace hlite::embedding;

namespace {

// The tables of MLPerf's DLRM.
SlotLayout criteo() {
  return {{39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
           38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
           14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36},
          128};
}

// Share of the lookups that go to the `rows` most frequent rows.
double top_share(const KeyFrequencies& f, const SlotLayout& layout, int64_t rows) {
  double low = 0, high = 26;  // frequencies: halved until no row is left between
  for (int i = 0; i < 60; ++i) {
    const double least = (low + high) / 2;
    (std::ssize(f.as_statistics(layout, least, 1e6).counts) > rows ? low : high) = least;
  }
  return 1 - f.lookups(high) / f.lookups();
}

}  // namespace

TEST_CASE("frequencies of Criteo's data are those of published runs") {
  const SlotLayout layout = criteo();
  const auto f = KeyFrequencies::like_criteo(layout);
  CHECK(f.lookups() == Approx(26));
  const std::pair<int64_t, double> published[] = {
      {31152, 0.892}, {37928, 0.901}, {49136, 0.911}, {60328, 0.919}};
  for (const auto& [rows, share] : published)
    CHECK(top_share(f, layout, rows) == Approx(share).margin(0.002));
  // At 55,296 samples at most 60,328 rows and 116,563 lookups of others.
  CHECK(f.distinct(55296) < 60328 + 116563);
  CHECK(f.distinct(55296) > 60328);
}

TEST_CASE("distinct categories are those that come at least once") {
  FrequencyStatistics counts;
  counts.categories = {4, 1, 0, 7};
  counts.counts = {100, 10, 10, 1};
  const auto f = KeyFrequencies::counted(counts, 100);
  CHECK(f.lookups() == Approx(1.21));
  CHECK(f.lookups(0.1) == Approx(0.01));
  CHECK(f.lookups(0.5) == Approx(0.21));
  for (const double n : {0.0, 1.0, 17.0, 1000.0}) {
    const auto comes = [n](double rate) { return 1 - std::exp(-rate * n); };
    CHECK(f.distinct(n) == Approx(comes(1) + 2 * comes(0.1) + comes(0.01)).margin(1e-12));
    CHECK(f.distinct(n, 0.1) == Approx(comes(0.01)).margin(1e-12));
  }
}

TEST_CASE("uniform keys, and the rows that frequent categories are taken to be") {
  const SlotLayout layout({3, 100, 1}, 4);
  const auto f = KeyFrequencies::uniform(layout);
  CHECK(f.lookups() == Approx(3));
  CHECK(f.distinct(1e6) == Approx(104));
  CHECK(f.distinct(1) == Approx(3).epsilon(0.35));
  const auto frequent = f.as_statistics(layout, 0.3, 1000);
  CHECK(frequent.counts == std::vector<int64_t>{1000, 333, 333, 333});
  CHECK(frequent.categories == std::vector<int64_t>{0, 3, 103, 1});
  CHECK(frequent.rare_lookups == 1000);
  CHECK(f.as_statistics(layout, KeyFrequencies::kAny, 10).counts.empty());
  const auto more = f.as_statistics(layout, 0.3, 1000, 2);
  CHECK(more.counts == std::vector<int64_t>{1000, 333, 333, 333, 10, 10});
  CHECK(more.rare_lookups == 1000 - 2 * 10);
}

TEST_CASE("tables smaller than the law keep their lookups") {
  for (const int64_t rows : {1, 2, 7, 1000}) {
    const SlotLayout layout({rows, rows}, 4);
    const auto f = KeyFrequencies::like_criteo(layout);
    CHECK(f.lookups() == Approx(2));
    CHECK(f.distinct(1e9) <= 2.0 * static_cast<double>(rows) + 2);
  }
}
