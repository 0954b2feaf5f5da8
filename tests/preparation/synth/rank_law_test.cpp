#include "hugectr_lite/preparation/synth/rank_law.h"

#include <cmath>

#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/synth/criteo_columns.h"
#include "tests/preparation/synth/rank_share.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

// Shares of a Zipf law, term by term.
std::vector<double> zipf_shares(int64_t ranks, double exponent) {
  std::vector<double> share;
  double sum = 0;
  for (int64_t r = 1; r <= ranks; ++r) {
    share.push_back(std::pow(static_cast<double>(r), -exponent));
    sum += share.back();
  }
  for (double& s : share) s /= sum;
  return share;
}

void check_is_law(const RankLaw& law, int64_t ranks) {
  INFO("ranks " << ranks);
  CHECK(law.ranks() == ranks);
  CHECK(top_share(law, ranks) == Approx(1.0).epsilon(1e-9));
  int64_t next = 0;
  double before = 1.01;
  for (const RankLaw::RankBucket& b : law.buckets()) {
    REQUIRE(b.first == next);
    REQUIRE(b.ranks >= 1);
    const double share = b.share / static_cast<double>(b.ranks);
    REQUIRE(share > 0);
    REQUIRE(share <= before * (1 + 1e-4));
    before = share;
    next = b.first + b.ranks;
  }
}

TEST_CASE("a Zipf law is that of its terms") {
  for (const int64_t ranks : {1, 2, 3, 127, 128, 129, 997, 50000}) {
    for (const double exponent : {0.0, 0.7, 1.0, 1.2, 2.5}) {
      INFO("ranks " << ranks << ", exponent " << exponent);
      const RankLaw law = RankLaw::zipf(ranks, exponent);
      check_is_law(law, ranks);
      const std::vector<double> share = zipf_shares(ranks, exponent);
      double sum = 0;
      for (int64_t r = 0; r < ranks; ++r) {
        sum += share[static_cast<size_t>(r)];
        // Within a bucket the law is flat; at its ends the sums agree.
        REQUIRE(top_share(law, r + 1) == Approx(sum).epsilon(2e-4));
        REQUIRE(rank_share(law, r) ==
                Approx(share[static_cast<size_t>(r)]).epsilon(r < 128 ? 1e-4 : 0.05));
      }
    }
  }
  CHECK(RankLaw::zipf(39999998, 1.05).buckets().size() < 700);
}

TEST_CASE("a fitted law has the shares asked for, whatever the number of categories") {
  const SkewProfile profile{{0.05, 0.19, 0.33}, 10000, 5500};
  for (const int64_t ranks : {200000, 10131227}) {
    const RankLaw law = RankLaw::fit(ranks, profile);
    check_is_law(law, ranks);
    for (int i = 0; i < 3; ++i)
      CHECK(top_share(law, SkewProfile::kTop[i]) == Approx(profile.top_share[i]).epsilon(1e-9));
    CHECK(law.expected_distinct(10000) == Approx(5500).epsilon(1e-3));
  }
  // Fewer categories than the shares allow for: as near as can be.
  for (const int64_t ranks : {1, 2, 9, 10, 11, 99, 100, 101, 150, 1000}) {
    check_is_law(RankLaw::fit(ranks, profile), ranks);
  }
  // Shares that no law has: falling ones, none at all, more than 1, steps that rise.
  for (const SkewProfile& odd :
       {SkewProfile{{0.5, 0.4, 0.3}, 100, 50}, SkewProfile{{0, 0, 0}, 0, 0},
        SkewProfile{{1, 1, 1}, 10, 1}, SkewProfile{{0.01, 0.9, 0.95}, 100, 9}}) {
    for (const int64_t ranks : {1, 10, 57, 100, 5000})
      check_is_law(RankLaw::fit(ranks, odd), ranks);
  }
}

TEST_CASE("every column of the profile is fitted: shares to 2 %, distinct values to 8 % or 20") {
  ColumnOptions options;
  options.cards = named_cardinalities("kaggle");
  options.profile = criteo_profile();
  const CriteoColumns columns = make_columns(options);
  for (int s = 0; s < criteo::kSlots; ++s) {
    INFO("C" << s + 1);
    const RankLaw& law = columns.tokens[static_cast<size_t>(s)].law;
    const TokenProfile& t = criteo_profile().tokens[static_cast<size_t>(s)];
    const double present = 1 - criteo_profile().missing_in_token_rows(s);
    check_is_law(law, t.cardinality);
    for (int i = 0; i < 3; ++i) {
      CHECK(top_share(law, SkewProfile::kTop[i]) ==
            Approx(std::min(1.0, t.top_share[i] / present)).epsilon(0.02));
    }
    CHECK(std::abs(law.expected_distinct(10000 * present) - static_cast<double>(t.distinct)) <
          std::max(20.0, 0.08 * static_cast<double>(t.distinct)));
  }
}

TEST_CASE("draws follow the law: shares of the top 1, 10, 100 and 1000 within 2 %") {
  const RankLaw laws[] = {RankLaw::zipf(3, 1.0), RankLaw::zipf(5000, 0.0),
                          RankLaw::zipf(39999998, 1.1),
                          RankLaw::fit(10131227, {{0.0486, 0.1916, 0.3258}, 9664, 5520}),
                          RankLaw::fit(12517, {{0.0105, 0.0727, 0.2897}, 10000, 3184})};
  constexpr int64_t kDraws = 2000000;
  uint64_t stream = 0;
  for (const RankLaw& law : laws) {
    ++stream;
    const RankSampler sampler(law);
    double top[4] = {0, 0, 0, 0};
    uint32_t largest = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const random::Block b = random::block(11, stream, i);
      const uint32_t rank = sampler.draw(b.word[0], b.word[1] * 0x1p-32);
      largest = std::max(largest, rank);
      int64_t k = 1;
      for (double& t : top) {
        t += rank < k;
        k *= 10;
      }
    }
    CHECK(largest < law.ranks());
    int64_t k = 1;
    for (const double t : top) {
      const double asked = top_share(law, k);
      INFO("law " << stream << ", top " << k << " of " << law.ranks());
      // Where a share is so small that chance alone moves it by more: four standard errors.
      const double chance = 4 * std::sqrt(asked / kDraws);
      CHECK(std::abs(t / kDraws - asked) < std::max(0.02 * asked, chance));
      k *= 10;
    }
  }
}

TEST_CASE("expected distinct values are those of independent draws") {
  const RankLaw law = RankLaw::zipf(700, 1.1);
  double sum = 0;
  for (int64_t r = 0; r < 700; ++r) sum += 1 - std::pow(1 - rank_share(law, r), 900);
  CHECK(law.expected_distinct(900) == Approx(sum).epsilon(1e-9));
  CHECK(RankLaw::zipf(1, 1).expected_distinct(5) == Approx(1.0));
  CHECK(law.expected_distinct(0) == 0.0);
}

}  // namespace
}  // namespace hlite::prep
