#include "hugectr_lite/core/number_option.h"

#include "tests/support/catch.h"

namespace hlite {
namespace {

// Returns the fault of `text`, or nothing.
std::string refusal(const CLI::Validator& check, std::string text) { return check(text); }

TEST_CASE("whole numbers within limits pass, everything else is refused in a few words") {
  const CLI::Validator small = whole_number(1, 4096), any = whole_number(0);
  for (const char* good : {"1", "42", "4096"}) CHECK(refusal(small, good).empty());
  for (const char* good : {"0", "9223372036854775807"}) CHECK(refusal(any, good).empty());
  for (const char* bad : {"0", "-5", "4097", "99999999999999999999", "1.5", "1e3", "x", "", "nan"})
    CHECK(refusal(small, bad) ==
          "expected a whole number from 1 to 4096, found \"" + std::string(bad) + "\"");
  CHECK(refusal(any, "-1") == "expected a whole number of at least 0, found \"-1\"");
  CHECK(refusal(any, "9223372036854775808").size() < 80);
}

TEST_CASE("a number too large for its type is an error, not the largest one") {
  CLI::App app;
  int64_t value = 0;
  app.add_option("--rows", value)->check(whole_number(0));
  CHECK_THROWS_AS(app.parse("--rows 99999999999999999999"), CLI::ValidationError);
  app.parse("--rows 7");
  CHECK(value == 7);
}

}  // namespace
}  // namespace hlite
