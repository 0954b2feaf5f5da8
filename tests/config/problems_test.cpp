#include "hugectr_lite/config/problems.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

using test::message_of;

TEST_CASE("Problems are raised together, once each, in the order of the file") {
  JsonNode root = JsonNode::parse("{\"a\": 1,\n\"b\": 2,\n\"c\": 3}", "f.json");
  root.set("d=4");
  Problems problems;
  CHECK(problems.empty());
  CHECK_NOTHROW(problems.raise());
  problems.add(*root.find("c"), "third");
  CHECK(!problems.collect([] { throw ConfigError("layers: without a place"); }));
  CHECK(!problems.collect([] { throw ConfigError("f.json:2: b: second\nf.json:10: x: tenth"); }));
  CHECK(problems.collect([] {}));
  problems.add(*root.find("d"), "from the command line");
  problems.add(*root.find("b"), "second");
  problems.add(*root.find("a"), "first");
  CHECK(problems.size() == 6);
  CHECK(message_of<ConfigError>([&] { problems.raise(); }) ==
        "--set d: d: from the command line\nf.json:1: a: first\nf.json:2: b: second\n"
        "f.json:3: c: third\nf.json:10: x: tenth\nlayers: without a place");
}

TEST_CASE("What is no ConfigError is no problem of the config") {
  Problems problems;
  CHECK_THROWS_AS(problems.collect([] { throw DataError("a file"); }), DataError);
  CHECK(problems.empty());
}

}  // namespace
}  // namespace hlite::config
