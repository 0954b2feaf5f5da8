#include "hugectr_lite/config/json_values.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"

namespace hlite::config {
namespace {

template <typename F>
std::string message_of(F action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

const char* const kText = R"({
  "i": 8, "whole": 8.0, "half": 8.5, "huge": 1e300, "edge": 9223372036854775808.0,
  "b": true, "s": "abc", "list": [1, 2.0, 3],
  "names": ["a", "b"], "mixed": ["a", 1],
  "o": {"inner": 1},
  "null": null
})";

const JsonNode& root() {
  static const JsonNode node = JsonNode::parse(kText, "f.json");
  return node;
}
const JsonNode& of(const char* key) { return member(root(), key); }

}  // namespace

TEST_CASE("members have values of the asked type") {
  CHECK(to_integer(of("i")) == 8);
  CHECK(to_integer(of("whole")) == 8);
  CHECK(to_number(of("i")) == 8.0);
  CHECK(to_number(of("half")) == 8.5);
  CHECK(to_boolean(of("b")));
  CHECK(to_string(of("s")) == "abc");
  CHECK(to_choice(of("s"), {"xyz", "abc"}) == "abc");
  CHECK(to_integers(of("list")) == std::vector<int64_t>{1, 2, 3});
  CHECK(to_strings(of("names")) == std::vector<std::string>{"a", "b"});
  CHECK(to_strings(of("s")) == std::vector<std::string>{"abc"});
  CHECK(to_list(of("list")).size() == 3);
  CHECK(to_integer(member(of("o"), "inner")) == 1);
  CHECK(to_object(of("o")).size() == 1);
  CHECK(of("null").kind() == JsonNode::Kind::kNull);
}

TEST_CASE("errors of values give line, path, expected and found") {
  CHECK(message_of([] { to_integer(of("null")); }) ==
        "f.json:6: null: expected an integer, found null");
  CHECK(message_of([] { to_integer(of("half")); }) ==
        "f.json:2: half: expected an integer, found 8.5");
  CHECK(message_of([] { to_integer(of("huge")); }) ==
        "f.json:2: huge: expected an integer, found 1e+300");
  CHECK(message_of([] { to_integer(of("edge")); }).find("expected an integer") !=
        std::string::npos);
  CHECK(message_of([] {
          to_integer(of("i"), {9, 11});
        }) == "f.json:2: i: expected an integer in [9, 11], found 8");
  CHECK(message_of([] { to_integer(of("i"), {.max = 7}); }) ==
        "f.json:2: i: expected an integer <= 7, found 8");
  CHECK(message_of([] { to_number(of("half"), {.min = 9}); }) ==
        "f.json:2: half: expected a number >= 9, found 8.5");
  CHECK(message_of([] { to_number(of("s")); }) == "f.json:3: s: expected a number, found \"abc\"");
  CHECK(message_of([] { to_boolean(of("i")); }) == "f.json:2: i: expected true or false, found 8");
  CHECK(message_of([] { to_string(of("b")); }) == "f.json:3: b: expected a string, found true");
  CHECK(message_of([] {
          to_choice(of("s"), {"x", "y"});
        }) == "f.json:3: s: expected one of \"x\", \"y\", found \"abc\"");
  CHECK(message_of([] { to_integers(of("list"), {.min = 2}); }) ==
        "f.json:3: list[0]: expected an integer >= 2, found 1");
  CHECK(message_of([] { to_strings(of("mixed")); }) ==
        "f.json:4: mixed[1]: expected a string, found 1");
  CHECK(message_of([] { to_strings(of("i")); }) ==
        "f.json:2: i: expected a string or a list of strings, found 8");
  CHECK(message_of([] { to_list(of("o")); }) == "f.json:5: o: expected a list, found an object");
  CHECK(message_of([] { member(of("list"), "x"); }) ==
        "f.json:3: list: expected an object, found a list of 3");
  CHECK(message_of([] { member(of("o"), "absentee"); }) == "f.json:5: o: missing key \"absentee\"");
}

TEST_CASE("closest finds slips and nothing far") {
  const std::vector<std::string> keys = {"batchsize", "batchsize_eval", "seed", "gpu"};
  CHECK(closest("batchsiz", keys) == "batchsize");
  CHECK(closest("batch_size", keys) == "batchsize");
  CHECK(closest("sede", keys) == "seed");
  CHECK(closest("gpus", keys) == "gpu");
  CHECK(closest("x", keys).empty());
  CHECK(closest("learning_rate", keys).empty());
  CHECK(closest("", keys).empty());
  CHECK(closest("word", {}).empty());
  // A third of the length, rounded up: 2 of 4 letters, not 3.
  CHECK(closest("abcd", {"abxy"}) == "abxy");
  CHECK(closest("abcd", {"axyz"}).empty());
}

}  // namespace hlite::config
