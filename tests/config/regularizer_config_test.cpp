#include "hugectr_lite/config/regularizer_config.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

RegularizerConfig regularizer(const char* text) {
  const JsonNode node = JsonNode::parse(text, "r.json");
  Problems problems;
  RegularizerConfig parsed;
  {
    Block block(node, true, problems);
    declare(block, parsed, "A penalty.");
  }
  problems.raise();
  return parsed;
}

}  // namespace

TEST_CASE("A penalty has a kind and a weight, or neither") {
  CHECK(!regularizer("{}").any());
  CHECK(regularizer("{}").lambda == 0);
  const RegularizerConfig l1 = regularizer(R"({"regularizer": "L1", "lambda": 0.5})");
  CHECK(l1.any());
  CHECK(l1.type == Regularizer::kL1);
  CHECK(l1.lambda == 0.5);
  const RegularizerConfig l2 = regularizer(R"({"regularizer": "L2", "lambda": 0})");
  CHECK(l2.any());
  CHECK(l2.type == Regularizer::kL2);
  CHECK(l2.lambda == 0);
}

TEST_CASE("A penalty that is said by half is refused") {
  CHECK_THROWS_WITH(regularizer(R"({"lambda": 0.5})"),
                    "r.json:1: lambda: expected a `regularizer` (L1 or L2) with it, found none");
  const auto refused = [](const char* text, const char* why) {
    test::check_contains(test::message_of<ConfigError>([&] { regularizer(text); }), {why});
  };
  refused(R"({"regularizer": "L1"})", "missing key \"lambda\"");
  refused(R"({"regularizer": "l2", "lambda": 1})",
          "regularizer: expected one of \"L1\", \"L2\", found \"l2\"");
  refused(R"({"regularizer": "L2", "lambda": -1})", "lambda: expected a number >= 0, found -1");
}

}  // namespace hlite::config
