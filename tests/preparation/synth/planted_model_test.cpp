#include "hugectr_lite/preparation/synth/planted_model.h"

#include <cmath>
#include <set>

#include "hugectr_lite/core/error.h"
#include "tests/preparation/synth/demo_options.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/scores.h"

namespace hlite::prep {
namespace {

using test::area_under_curve;

double probability_of(const PlantedRow& row) { return 1 / (1 + std::exp(-row.logit)); }

TEST_CASE("pairs cannot be seen from one slot alone") {
  // All of the logit but a sliver is pairwise: no category's click rate may stand out, while the
  // labels are far from random.
  PlantedOptions options = demo_options();
  options.share_linear = options.share_dense = 0;
  options.share_pairwise = 1;
  options.columns.missing = 0;
  const PlantedModel model(options);
  REQUIRE(model.pairs().size() == static_cast<size_t>(options.pairs));
  const auto slot = static_cast<size_t>(model.pairs()[0][0]);
  constexpr int kRows = 40000;
  std::vector<double> probability(3), rows(3);
  std::vector<uint8_t> labels;
  std::vector<double> all;
  for (uint64_t i = 0; i < kRows; ++i) {
    const PlantedRow row = model.row(i);
    labels.push_back(row.label);
    all.push_back(probability_of(row));
    if (const uint32_t category = row.category[slot]; category <= 3) {
      probability[category - 1] += probability_of(row);
      rows[category - 1] += 1;
    }
  }
  CHECK(area_under_curve(labels, all) > 0.85);
  for (size_t c = 0; c < 3; ++c) {
    REQUIRE(rows[c] > 1000);
    CHECK(std::abs(probability[c] / rows[c] - options.click_rate) < 0.12);
  }
}

TEST_CASE("tokens are distinct within a column, also modulo 40,000,000, and never its zero") {
  PlantedOptions options = demo_options();
  options.columns.cards[3] = 100000;
  const PlantedModel model(options);
  std::set<uint32_t> seen;
  bool wide = false;
  for (uint32_t category = 1; category <= 100000; ++category) {
    const uint32_t token = model.token(3, category);
    wide = wide || token > 0xf0000000u;
    seen.insert(token % 40000000);
  }
  CHECK(seen.size() == 100000);
  CHECK(seen.count(0) == 0);
  CHECK(wide);  // all of the 32 bits are in use
}

TEST_CASE("a slot of millions of categories costs no more than a small one, in pairs too") {
  PlantedOptions options = demo_options();
  options.columns.cards.assign(26, 39999998);
  options.columns.zipf = 1.0;
  options.calibration_rows = 2000;
  const PlantedModel model(options);
  uint32_t largest = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    for (const uint32_t category : model.row(i).category) largest = std::max(largest, category);
  CHECK(largest > 10000000);
  CHECK(largest <= 39999998);
}

TEST_CASE("options that make no sense are named") {
  const auto message = [](auto change) {
    PlantedOptions options = demo_options();
    change(options);
    return test::message_of<ConfigError>([&] { PlantedModel model(options); });
  };
  using O = PlantedOptions;
  test::check_contains(message([](O& o) { o.columns.cards.pop_back(); }), {"--cards", "25"});
  test::check_contains(message([](O& o) { o.pairs = 99; }), {"--pairs", "found 99"});
  test::check_contains(message([](O& o) { o.dim = 0; }), {"--dim"});
  test::check_contains(message([](O& o) { o.auc = 0.4; }), {"--auc", "0.4"});
  test::check_contains(message([](O& o) { o.click_rate = 1; }), {"--ctr"});
  test::check_contains(message([](O& o) { o.share_linear = o.share_pairwise = o.share_dense = 0; }),
                       {"--auc", "cannot be reached"});
}

}  // namespace
}  // namespace hlite::prep
