#include "hugectr_lite/config/object_reader.h"

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

struct Fixture {
  JsonNode root = JsonNode::parse(kText, "f.json");
  ObjectReader reader{root};
};

}  // namespace

TEST_CASE("ObjectReader returns members of the asked type") {
  Fixture f;
  CHECK(f.reader.integer("i") == 8);
  CHECK(f.reader.integer("whole") == 8);
  CHECK(f.reader.number("i") == 8.0);
  CHECK(f.reader.number("half") == 8.5);
  CHECK(f.reader.boolean("b"));
  CHECK(f.reader.string("s") == "abc");
  CHECK(f.reader.choice("s", {"xyz", "abc"}) == "abc");
  CHECK(f.reader.integers("list") == std::vector<int64_t>{1, 2, 3});
  CHECK(f.reader.strings("names") == std::vector<std::string>{"a", "b"});
  CHECK(f.reader.strings("s") == std::vector<std::string>{"abc"});
  CHECK(f.reader.object("o").integer("inner") == 1);
  CHECK(f.reader.member("null").kind() == JsonNode::Kind::kNull);
  CHECK(f.reader.find("absent") == nullptr);
}

TEST_CASE("ObjectReader's optional getters fall back only when the key is absent") {
  Fixture f;
  CHECK(f.reader.integer_or("absent", -3, {.min = 0}) == -3);
  CHECK(f.reader.integer_or("i", 5) == 8);
  CHECK(f.reader.number_or("absent", 0.5) == 0.5);
  CHECK(f.reader.boolean_or("absent", true));
  CHECK(f.reader.string_or("absent", "d") == "d");
  CHECK(f.reader.choice_or("absent", "d", {"a"}) == "d");
  CHECK(f.reader.integers_or("absent", {4}) == std::vector<int64_t>{4});
  CHECK(message_of([&] { f.reader.integer_or("null", 1); }) ==
        "f.json:6: null: expected an integer, found null");
}

TEST_CASE("ObjectReader's errors give line, path, expected and found") {
  Fixture f;
  const auto says = [&](auto action) { return message_of([&] { action(f.reader); }); };
  CHECK(says([](auto& r) { r.integer("half"); }) ==
        "f.json:2: half: expected an integer, found 8.5");
  CHECK(says([](auto& r) { r.integer("huge"); }) ==
        "f.json:2: huge: expected an integer, found 1e+300");
  CHECK(says([](auto& r) { r.integer("edge"); }).find("expected an integer") != std::string::npos);
  CHECK(says([](auto& r) {
          r.integer("i", {9, 11});
        }) == "f.json:2: i: expected an integer in [9, 11], found 8");
  CHECK(says([](auto& r) { r.integer("i", {.max = 7}); }) ==
        "f.json:2: i: expected an integer <= 7, found 8");
  CHECK(says([](auto& r) { r.number("half", {.min = 9}); }) ==
        "f.json:2: half: expected a number >= 9, found 8.5");
  CHECK(says([](auto& r) { r.number("s"); }) == "f.json:3: s: expected a number, found \"abc\"");
  CHECK(says([](auto& r) { r.boolean("i"); }) == "f.json:2: i: expected true or false, found 8");
  CHECK(says([](auto& r) { r.string("b"); }) == "f.json:3: b: expected a string, found true");
  CHECK(says([](auto& r) {
          r.choice("s", {"x", "y"});
        }) == "f.json:3: s: expected one of \"x\", \"y\", found \"abc\"");
  CHECK(says([](auto& r) { r.integers("list", {.min = 2}); }) ==
        "f.json:3: list[0]: expected an integer >= 2, found 1");
  CHECK(says([](auto& r) { r.strings("mixed"); }) ==
        "f.json:4: mixed[1]: expected a string, found 1");
  CHECK(says([](auto& r) { r.strings("i"); }) ==
        "f.json:2: i: expected a string or a list of strings, found 8");
  CHECK(says([](auto& r) { r.object("list"); }) ==
        "f.json:3: list: expected an object, found a list of 3");
  CHECK(says([](auto& r) { r.object("o").integer("absentee"); }) ==
        "f.json:5: o: missing key \"absentee\"");
  CHECK(says([](auto& r) { r.object("o").integer("iner"); }) ==
        "f.json:5: o.inner: unknown key; did you mean \"iner\"?");
  CHECK(says([](auto& r) { r.unsupported("s", "use t"); }) ==
        "f.json:3: s: known but not supported: use t");
}

TEST_CASE("finish reports what nobody asked for") {
  const JsonNode root = JsonNode::parse("{\"width\": 1,\n \"hieght\": 2,\n \"z\": 3}", "f.json");
  const auto read = [&](bool strict) {
    ObjectReader reader(root, strict);
    reader.accept("width");
    CHECK_FALSE(reader.has("height"));
    reader.unsupported("length", "it is not here");
    reader.finish();
  };
  CHECK(message_of([&] { read(true); }) ==
        "f.json:2: hieght: unknown key; did you mean \"height\"?\n"
        "f.json:3: z: unknown key; known keys: height, width");
  CHECK_NOTHROW(read(false));
}

TEST_CASE("Strictness is passed to inner objects and does not soften types") {
  const JsonNode root = JsonNode::parse(R"({"o": {"a": "x", "unknown": 1}})", "f.json");
  ObjectReader reader(root, false);
  ObjectReader inner = reader.object("o");
  CHECK_FALSE(inner.strict());
  CHECK_THROWS_AS(inner.integer("a"), ConfigError);
  CHECK_NOTHROW(inner.finish());
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
