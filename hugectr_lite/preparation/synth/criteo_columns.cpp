#include "hugectr_lite/preparation/synth/criteo_columns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::prep {
namespace {

using criteo::kDense;
using criteo::kSlots;

// Streams of the random numbers of columns without a profile.
constexpr uint64_t kTokenShape = 0x500, kIntegerShape = 0x400;
constexpr int64_t kMaxCategories = 39999998;  // tokens are distinct modulo 40,000,000
// Columns of fewer categories have no missing values unless a profile says so.
constexpr int64_t kFewCategories = 10;
// Without a profile: exponent of the Zipf law, and mean share of missing values.
constexpr double kZipf = 1.2, kMissing = 0.08;

// Inverse of the standard normal distribution function by bisection: for tables only.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double middle_of(int i) { return (i + 0.5) / IntegerColumn::kValues; }

IntegerColumn log_normal_column(uint64_t seed, int number) {
  const random::Block b = random::block(seed, kIntegerShape, static_cast<uint64_t>(number));
  const double mu = 0.5 + 3.0 * random::uniform(b.word[0]);
  const double sigma = 0.6 + 0.9 * random::uniform(b.word[1]);
  IntegerColumn column;
  column.missing = 2 * kMissing * random::uniform(b.word[2]);
  for (int i = 0; i < IntegerColumn::kValues; ++i) {
    const double x = std::exp(mu + sigma * normal_quantile(middle_of(i)));
    // Criteo's second integer goes down to -2.
    column.values.push_back(static_cast<int32_t>(std::floor(std::min(x, 2e6))) -
                            (number == 1 ? 2 : 0));
  }
  return column;
}

// Between the quantiles of a profile, log(1 + x - min) rises linearly; the lowest values are
// negative, the next zero, as often as it says.
IntegerColumn profile_column(const IntegerProfile& profile) {
  IntegerColumn column;
  column.missing = profile.missing;
  const double present = std::max(1 - profile.missing, 1e-9);
  const double negative = profile.negative / present;
  const double zero = negative + profile.zero / present;
  const auto& knots = profile.quantile;
  const double least = knots.front();
  size_t k = 0;
  for (int i = 0; i < IntegerColumn::kValues; ++i) {
    const double p = middle_of(i);
    while (k + 2 < knots.size() && p >= IntegerProfile::kProbability[k + 1]) ++k;
    const double low = IntegerProfile::kProbability[k], high = IntegerProfile::kProbability[k + 1];
    const double a = std::log1p(knots[k] - least), b = std::log1p(knots[k + 1] - least);
    double x = std::round(least + std::expm1(a + (b - a) * (p - low) / (high - low)));
    if (p < negative) {
      x = std::min(x, -1.0);
    } else if (p < zero) {
      x = 0;
    } else {
      x = std::max(x, 1.0);
    }
    column.values.push_back(static_cast<int32_t>(x));
  }
  return column;
}

// place[c]: the position of column c when columns are sorted by cardinality, largest first.
template <typename Cardinality>
std::vector<int> places(Cardinality&& cardinality) {
  std::vector<int> order(kSlots), place(kSlots);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return cardinality(a) > cardinality(b); });
  for (int p = 0; p < kSlots; ++p) place[static_cast<size_t>(order[static_cast<size_t>(p)])] = p;
  return place;
}

SkewProfile skew_of(const CriteoProfile& profile, int slot) {
  const TokenProfile& t = profile.tokens[static_cast<size_t>(slot)];
  const double present = std::max(1 - profile.missing_in_token_rows(slot), 1e-9);
  SkewProfile skew;
  for (int i = 0; i < 3; ++i) skew.top_share[i] = std::min(1.0, t.top_share[i] / present);
  skew.draws = std::llround(static_cast<double>(CriteoProfile::kTokenRows) * present);
  skew.distinct = t.distinct;
  return skew;
}

void check(const ColumnOptions& o) {
  if (o.cards.size() != static_cast<size_t>(kSlots)) {
    raise<ConfigError>("--cards: expected {} cardinalities, found {}", kSlots, o.cards.size());
  }
  for (const int64_t card : o.cards) {
    if (card < 1 || std::min(card, o.cap) > kMaxCategories) {
      raise<ConfigError>("--cards: expected cardinalities from 1 to {}, found {}", kMaxCategories,
                         card);
    }
  }
}

}  // namespace

std::vector<int64_t> named_cardinalities(const std::string& name) {
  if (name == "demo") {
    return {400, 300, 2000, 1000, 120, 24, 500, 150, 4,  200, 100, 600, 80,
            27,  60,  50,   10,   40,  30, 4,   20,  18, 15,  12,  8,   6};
  }
  if (name == "kaggle") {
    std::vector<int64_t> cards;
    for (const TokenProfile& t : criteo_profile().tokens) cards.push_back(t.cardinality);
    return cards;
  }
  if (name == "terabyte") {
    return {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
            38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
            14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};
  }
  raise<ConfigError>("--cards: expected demo, kaggle, terabyte or 26 numbers, found \"{}\"", name);
}

CriteoColumns make_columns(const ColumnOptions& options) {
  check(options);
  const CriteoProfile* profile = options.profile ? &*options.profile : nullptr;
  CriteoColumns columns;
  for (int k = 0; k < kDense; ++k) {
    columns.integers.push_back(profile != nullptr
                                   ? profile_column(profile->integers[static_cast<size_t>(k)])
                                   : log_normal_column(options.seed, k));
  }
  std::vector<int> place, theirs;
  if (profile != nullptr) {
    place = places([&](int s) { return options.cards[static_cast<size_t>(s)]; });
    theirs = places([&](int s) { return profile->tokens[static_cast<size_t>(s)].cardinality; });
  }
  for (size_t s = 0; s < kSlots; ++s) {
    const int64_t card = std::min(options.cards[s], options.cap);
    if (profile != nullptr) {
      const auto same = std::find(theirs.begin(), theirs.end(), place[s]) - theirs.begin();
      columns.tokens.push_back({RankLaw::fit(card, skew_of(*profile, static_cast<int>(same))),
                                profile->tokens[static_cast<size_t>(same)].missing});
    } else {
      const double share = random::uniform(random::word(options.seed, kTokenShape, s));
      columns.tokens.push_back(
          {RankLaw::zipf(card, kZipf), card >= kFewCategories ? 2 * kMissing * share : 0.0});
    }
  }
  return columns;
}

}  // namespace hlite::prep
