#include "hugectr_lite/preparation/synth/planted_model.h"

#include <set>

#include "tests/preparation/synth/demo_options.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

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
  options.calibration_rows = 2000;
  const PlantedModel model(options);
  uint32_t largest = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    for (const uint32_t category : model.row(i).category) largest = std::max(largest, category);
  CHECK(largest > 10000000);
  CHECK(largest <= 39999998);
}

}  // namespace
}  // namespace hlite::prep
