#include "hugectr_lite/config/block.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::config {
namespace {

using test::message_of;

enum class Color { kNone, kRed, kBlue };

struct Inner {
  int64_t least = 1;
  bool operator==(const Inner&) const = default;
};
void declare(Block& s, Inner& inner) {
  s.about("An inner block.");
  s.integer("least", &inner.least, {.min = 1}, "The least.");
}

struct Sample {
  int64_t steps = 0;
  int threads = 4;
  std::optional<int64_t> limit;
  double rate = 0.5;
  bool fast = true;
  Color color = Color::kNone;
  std::string label = "x", file;
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
  Inner inner;
  std::vector<Inner> each;
  int64_t doubled = 0;
};
void declare(Block& s, Sample& sample) {
  s.integer("steps", &sample.steps, {.min = 0}, "Steps.", kRequired);
  s.integer("threads", &sample.threads, {1, 8}, "Threads.");
  s.integer("limit", &sample.limit, {.max = 9}, "Limit.");
  s.number("rate", &sample.rate, {.min = 0, .max = 1, .without_max = true}, "Rate.");
  s.boolean("fast", &sample.fast, "Fast.");
  s.choice("color", &sample.color, {{"red", Color::kRed}, {"blue", Color::kBlue}}, "Color.");
  s.text("label", &sample.label, "Label.");
  s.name("file", &sample.file, "File.", otherwise("standard output"));
  s.integers("sizes", &sample.sizes, {.min = 1}, "Sizes.");
  s.strings("names", &sample.names, "Names.");
  s.value("doubled", {"an even number", R"("multipleOf":2)"}, "Doubled.", {},
          [&](const JsonNode& node) {
            if (to_integer(node) % 2 != 0) fail_expected(node, "an even number");
            sample.doubled = node.integer();
          });
  if (auto inner = s.object("inner", "Inner.")) declare(*inner, sample.inner);
  s.objects("each", "a list of blocks", "Each.", {},
            [&](Block& one) { declare(one, sample.each.emplace_back()); });
  s.accept("old", "Without effect.");
  s.unsupported("older", "use old");
  s.check([&] {
    if (sample.limit && *sample.limit < sample.steps) fail_expected(s.at("limit"), "more");
  });
}

JsonNode parsed(const char* text) { return JsonNode::parse(text, "f.json"); }
std::string refusal(const char* text) {
  const JsonNode node = parsed(text);
  return message_of<ConfigError>([&] { read_block<Sample>(node); });
}

TEST_CASE("A block fills the fields of the keys that are there, and leaves the others") {
  const Sample least = read_block<Sample>(parsed(R"({"steps": 3})"));
  CHECK(least.steps == 3);
  CHECK(least.threads == 4);
  CHECK(!least.limit);
  CHECK(least.label == "x");
  CHECK(least.each.empty());
  const Sample all = read_block<Sample>(parsed(
      R"({"steps": 3.0, "threads": 8, "limit": 9, "rate": 0, "fast": false, "color": "blue",
          "label": "", "file": "f", "sizes": [1, 2], "names": "a", "doubled": 4,
          "inner": {"least": 7}, "each": [{}, {"least": 2}], "old": [null]})"));
  CHECK(all.steps == 3);
  CHECK(all.threads == 8);
  CHECK(all.limit == 9);
  CHECK(all.rate == 0);
  CHECK(!all.fast);
  CHECK(all.color == Color::kBlue);
  CHECK(all.label.empty());
  CHECK(all.file == "f");
  CHECK(all.sizes == std::vector<int64_t>{1, 2});
  CHECK(all.names == std::vector<std::string>{"a"});
  CHECK(all.doubled == 4);
  CHECK(all.inner.least == 7);
  CHECK(all.each == std::vector<Inner>{{1}, {2}});
}

TEST_CASE("Every fault of a block is a line") {
  CHECK(refusal("{\"steps\": -1,\n\"threads\": 9,\n\"limit\": 10,\n\"rate\": 1,\n\"fast\": 1,\n"
                "\"color\": \"green\",\n\"label\": 7,\n\"file\": \"\",\n\"sizes\": [0],\n"
                "\"names\": 1,\n\"doubled\": 3,\n\"inner\": {\"least\": 0},\n\"each\": [[]],\n"
                "\"older\": 1,\n\"unheard_of\": 1}") ==
        "f.json:1: steps: expected an integer >= 0, found -1\n"
        "f.json:2: threads: expected an integer in [1, 8], found 9\n"
        "f.json:3: limit: expected an integer <= 9, found 10\n"
        "f.json:4: rate: expected a number in [0, 1), found 1\n"
        "f.json:5: fast: expected true or false, found 1\n"
        "f.json:6: color: expected one of \"red\", \"blue\", found \"green\"\n"
        "f.json:7: label: expected a string, found 7\n"
        "f.json:8: file: expected a non-empty string, found \"\"\n"
        "f.json:9: sizes[0]: expected an integer >= 1, found 0\n"
        "f.json:10: names: expected a string or a list of strings, found 1\n"
        "f.json:11: doubled: expected an even number, found 3\n"
        "f.json:12: inner.least: expected an integer >= 1, found 0\n"
        "f.json:13: each[0]: expected an object, found an empty list\n"
        "f.json:14: older: known but not supported: use old\n"
        "f.json:15: unheard_of: unknown key; known keys: color, doubled, each, fast, file, inner, "
        "label, limit, names, old, older, rate, sizes, steps, threads");
  CHECK(refusal("{}") == "f.json:1: missing key \"steps\"");
  CHECK(refusal("[]") == "f.json:1: expected an object, found an empty list");
  CHECK(refusal(R"({"steps": 0, "inner": 3})") == "f.json:1: inner: expected an object, found 3");
  CHECK(refusal(R"({"steps": 0, "each": []})") ==
        "f.json:1: each: expected a list of blocks, found an empty list");
}

TEST_CASE("What keys must be together is checked where each is sound") {
  CHECK(refusal(R"({"steps": 5, "limit": 3})") == "f.json:1: limit: expected more, found 3");
  CHECK(refusal(R"({"limit": -1})") == "f.json:1: missing key \"steps\"");
}

TEST_CASE("A slip in a required key is named once, strict or not; other unknown keys may pass") {
  CHECK(refusal(R"({"stesp": 3})") == "f.json:1: stesp: unknown key; did you mean \"steps\"?");
  const JsonNode slip = parsed(R"({"stesp": 3})"), unknown = parsed(R"({"steps": 3, "fastt": 1})");
  CHECK_THROWS_AS(read_block<Sample>(slip, false), ConfigError);
  CHECK(read_block<Sample>(unknown, false).steps == 3);
  CHECK(message_of<ConfigError>([&] { read_block<Sample>(unknown); }) ==
        "f.json:1: fastt: unknown key; did you mean \"fast\"?");
  // Inner blocks are as strict, and types are checked in any case.
  CHECK_NOTHROW(read_block<Sample>(parsed(R"({"steps": 3, "inner": {"odd": 1}})"), false));
  CHECK_THROWS_AS(read_block<Sample>(parsed(R"({"steps": "3"})"), false), ConfigError);
}

TEST_CASE("A block that accepts others passes over unknown keys, also inside, but not over slips") {
  const auto read = [](const char* text) {
    read_object(parsed(text), [](Block& s) {
      s.accept_others();
      int64_t steps = 0;
      s.integer("steps", &steps, {.min = 1}, "", kRequired);
      if (auto inner = s.object("inner", "")) inner->integer("least", &steps, {.min = 1});
    });
  };
  CHECK_NOTHROW(read(R"({"steps": 3, "other": 1, "inner": {"other": 1}})"));
  CHECK(message_of<ConfigError>([&] { read(R"({"stesp": 3, "other": 1})"); }) ==
        "f.json:1: stesp: unknown key; did you mean \"steps\"?");
  CHECK(message_of<ConfigError>([&] { read(R"({"steps": 0, "o": 1, "inner": {"least": 0}})"); }) ==
        "f.json:1: steps: expected an integer >= 1, found 0\n"
        "f.json:1: inner.least: expected an integer >= 1, found 0");
}

TEST_CASE("The same declarations describe the keys, and change no field") {
  BlockSchema schema;
  Sample sample;
  {
    Block block(schema);
    declare(block, sample);
  }
  CHECK(sample.steps == 0);
  const auto key = [&](const std::string& name) {
    for (const KeySchema& k : schema.keys)
      if (k.name == name)
        return fmt::format("{}; {}; {}{}{}; {}", k.takes, k.json, k.otherwise, k.in_words,
                           k.required ? "required" : "", k.meaning);
    return std::string("none");
  };
  CHECK(key("steps") == R"(an integer >= 0; "type":"integer","minimum":0; required; Steps.)");
  CHECK(key("threads") ==
        R"(an integer in [1, 8]; "type":"integer","minimum":1,"maximum":8; 4; Threads.)");
  CHECK(key("limit") == R"(an integer <= 9; "type":"integer","maximum":9; ; Limit.)");
  CHECK(key("rate") ==
        R"(a number in [0, 1); "type":"number","minimum":0,"exclusiveMaximum":1; 0.5; Rate.)");
  CHECK(key("fast") == R"(true or false; "type":"boolean"; true; Fast.)");
  CHECK(key("color") == R"(one of "red", "blue"; "enum":["red","blue"]; ; Color.)");
  CHECK(key("label") == R"(a string; "type":"string"; "x"; Label.)");
  CHECK(key("file") ==
        R"(a non-empty string; "type":"string","minLength":1; standard output; File.)");
  CHECK(key("doubled") == R"(an even number; "multipleOf":2; ; Doubled.)");
  CHECK(key("old") == "anything; ; ; Without effect.");
  CHECK(schema.refused == std::vector<std::pair<std::string, std::string>>{{"older", "use old"}});
  const auto inner = std::find_if(schema.keys.begin(), schema.keys.end(),
                                  [](const KeySchema& k) { return k.name == "each"; });
  REQUIRE(inner != schema.keys.end());
  REQUIRE(inner->block);
  CHECK(inner->block->text == "An inner block.");
  CHECK(inner->block->keys.at(0).name == "least");
}

}  // namespace
}  // namespace hlite::config
