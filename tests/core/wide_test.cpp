#include "hugectr_lite/core/wide.h"

#include <cstdlib>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

TEST_CASE("wide() runs its body once, for the processor's registers") {
  int calls = 0, lanes = 0;
  wide([&] { ++calls; });
  wide([&]<int kLanes>() { lanes += kLanes; });
  CHECK(calls == 1);
  CHECK(lanes == (instruction_set() == InstructionSet::kAvx512 ? 16 : 8));
}

TEST_CASE("a loop in wide() gives what it says") {
  std::vector<float> x(1003), y(1003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 500;
  wide([&] {
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] <= 0 ? 0 : 2 * x[i];
  });
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == (x[i] <= 0 ? 0 : 2 * x[i]));
}

TEST_CASE("HLITE_INSTRUCTIONS limits the instructions and knows their names") {
  for (const auto set : {InstructionSet::kBase, InstructionSet::kAvx2, InstructionSet::kAvx512})
    CHECK(instruction_set_named(name_of(set)) == set);
  check_contains(message_of<ConfigError>([] { (void)instruction_set_named("sse9"); }),
                 {"HLITE_INSTRUCTIONS", "base, avx2 or avx512", "\"sse9\""});
  if (const char* const limit = std::getenv("HLITE_INSTRUCTIONS"))
    CHECK(instruction_set() <= instruction_set_named(limit));
}

}  // namespace
}  // namespace hlite::test
