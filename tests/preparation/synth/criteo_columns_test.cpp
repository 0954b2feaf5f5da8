#include "hugectr_lite/preparation/synth/criteo_columns.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/synth/rank_share.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

ColumnOptions like_criteo(const std::string& cards = "kaggle") {
  ColumnOptions options;
  options.cards = named_cardinalities(cards);
  options.profile = criteo_profile();
  return options;
}

TEST_CASE("integers have the quantiles, zeros, negative values and mean of the profile") {
  const CriteoColumns columns = make_columns(like_criteo());
  for (size_t k = 0; k < criteo::kDense; ++k) {
    INFO("I" << k + 1);
    const IntegerProfile& p = criteo_profile().integers[k];
    const IntegerColumn& column = columns.integers[k];
    CHECK(column.missing == p.missing);
    REQUIRE(column.values.size() == IntegerColumn::kValues);
    CHECK(std::is_sorted(column.values.begin(), column.values.end()));
    const auto share = [&](auto holds) {
      return static_cast<double>(std::count_if(column.values.begin(), column.values.end(), holds)) /
             IntegerColumn::kValues * (1 - p.missing);
    };
    CHECK(share([](int32_t x) { return x < 0; }) == Approx(p.negative).margin(0.0005));
    CHECK(share([](int32_t x) { return x == 0; }) == Approx(p.zero).margin(0.0005));
    for (size_t q = 1; q + 1 < p.quantile.size(); ++q) {
      const auto at = static_cast<size_t>(IntegerProfile::kProbability[q] * IntegerColumn::kValues);
      CHECK(column.values[at - 1] <= p.quantile[q]);
      CHECK(column.values[at + 1] >= p.quantile[q]);
    }
    CHECK(column.values.front() >= p.quantile.front());
    CHECK(column.values.back() <= p.quantile.back());
  }
}

TEST_CASE("columns of other cardinalities take their skew by the order of sizes") {
  const CriteoColumns kaggle = make_columns(like_criteo()),
                      terabyte = make_columns(like_criteo("terabyte"));
  // The largest of Kaggle is C3, of Terabyte C20; the smallest C9 and C6.
  CHECK(terabyte.tokens[19].law.ranks() == 39979771);
  CHECK(top_share(terabyte.tokens[19].law, 1) == Approx(top_share(kaggle.tokens[2].law, 1)));
  CHECK(terabyte.tokens[19].missing == kaggle.tokens[2].missing);
  CHECK(terabyte.tokens[5].law.ranks() == 3);
  CHECK(top_share(terabyte.tokens[5].law, 1) == Approx(top_share(kaggle.tokens[8].law, 1)));
}

TEST_CASE("a cap replaces the cardinalities that the profile says") {
  ColumnOptions options = like_criteo();
  options.cap = 1000;
  CriteoColumns columns = make_columns(options);
  CHECK(columns.tokens[2].law.ranks() == 1000);
  CHECK(columns.tokens[4].law.ranks() == 305);
  CHECK(top_share(columns.tokens[2].law, 100) ==
        Approx(top_share(make_columns(like_criteo()).tokens[2].law, 100)));
}

TEST_CASE("without a profile all columns follow one Zipf law, those of few categories complete") {
  ColumnOptions options;
  options.cards = named_cardinalities("demo");
  const CriteoColumns columns = make_columns(options);
  double missing = 0;
  for (const TokenColumn& c : columns.tokens) {
    CHECK(rank_share(c.law, 1) / rank_share(c.law, 0) == Approx(std::pow(2.0, -1.2)));
    if (c.law.ranks() < 10) CHECK(c.missing == 0.0);
    missing += c.missing / criteo::kSlots;
  }
  CHECK(missing > 0.03);
  CHECK(missing < 0.13);
  CHECK(columns.integers[1].values.front() < 0);
}

TEST_CASE("column options that make no sense are named") {
  const auto message = [](auto change) {
    ColumnOptions options = like_criteo("demo");
    change(options);
    return test::message_of<ConfigError>([&] { make_columns(options); });
  };
  using O = ColumnOptions;
  test::check_contains(message([](O& o) { o.cards.pop_back(); }), {"--cards", "26", "25"});
  test::check_contains(message([](O& o) { o.cards[4] = 0; }), {"--cards", "found 0"});
  test::check_contains(message([](O& o) { o.cards[4] = 40000000; }), {"--cards", "40000000"});
  test::check_contains(test::message_of<ConfigError>([] { named_cardinalities("mini"); }),
                       {"demo", "mini"});
}

}  // namespace
}  // namespace hlite::prep
