#include "hugectr_lite/preparation/synth/criteo_profile.h"

#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

TEST_CASE("the built-in table is of a public data set's known size") {
  const CriteoProfile& p = criteo_profile();
  int64_t total = 0;
  for (const TokenProfile& t : p.tokens) total += t.cardinality;
  CHECK(total == 33762577);  // Criteo Kaggle, all 26 columns
  // Columns that are missing together; C22 is rarer at the start of the data.
  CHECK(p.missing_in_token_rows(19) == p.missing_in_token_rows(25));
  CHECK(p.missing_in_token_rows(21) == Approx(0.8182));
  CHECK(p.missing_in_token_rows(0) == 0.0);
}

}  // namespace
}  // namespace hlite::prep
