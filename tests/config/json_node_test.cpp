#include "hugectr_lite/config/json_node.h"

#include <cmath>
#include <cstdio>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::config {
namespace {

std::string error_of(std::string_view text) {
  try {
    JsonNode::parse(text, "f.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

std::string set_error(const std::string& text, const std::string& argument) {
  try {
    JsonNode::parse(text, "f.json").set(argument);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

JsonNode after_set(const std::string& text, const std::string& argument) {
  JsonNode node = JsonNode::parse(text, "f.json");
  node.set(argument);
  return node;
}

std::string nested_lists(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("Values keep kind, value, order, path and line") {
  const JsonNode root = JsonNode::parse(R"({
  "z": 1,
  "a": [true, null,
        -2.5, "s"],
  "o": {
    "in ner": {"x": 9223372036854775807}
  }
})",
                                        "f.json");
  REQUIRE(root.members().size() == 3);
  CHECK(root.members()[0].first == "z");
  CHECK(root.members()[1].first == "a");
  CHECK(root.path().empty());
  CHECK(root.where() == "f.json:1");
  CHECK(root.find("z")->integer() == 1);
  CHECK(root.find("z")->where() == "f.json:2");
  const auto& list = root.find("a")->elements();
  REQUIRE(list.size() == 4);
  CHECK(list[0].boolean());
  CHECK(list[1].kind() == JsonNode::Kind::kNull);
  CHECK(list[2].kind() == JsonNode::Kind::kReal);
  CHECK(list[2].number() == -2.5);
  CHECK(list[2].where() == "f.json:4");
  CHECK(list[3].string() == "s");
  CHECK(list[3].path() == "a[3]");
  const JsonNode* x = root.find("o")->find("in ner")->find("x");
  CHECK(x->integer() == INT64_MAX);
  CHECK(x->path() == "o[\"in ner\"].x");
  CHECK(x->where() == "f.json:6");
  CHECK(root.find("absent") == nullptr);
  CHECK(list[0].find("absent") == nullptr);
}

TEST_CASE("Numbers followed by a line break belong to their own line") {
  const JsonNode root = JsonNode::parse("[1\n,\n2\n\n,3.5\r\n,4//x\n,5/*\n*/\n,\n\n6]", "f");
  const char* const where[] = {"f:1", "f:3", "f:5", "f:6", "f:7", "f:11"};
  REQUIRE(root.elements().size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(root.elements()[i].where() == where[i]);
  CHECK(JsonNode::parse("\n\n12", "f").where() == "f:3");
  CHECK(JsonNode::parse("\n12\n", "f").where() == "f:2");
  CHECK(JsonNode::parse("\xEF\xBB\xBF\n1", "f").where() == "f:2");
}

TEST_CASE("Comments count for lines and are skipped") {
  const JsonNode root = JsonNode::parse(R"(// head
/* two
   lines */ { // "no": 0
  "a" /* x */ : /* y
  */ 1 /* } */, "b": "// no comment /* */"
} // tail)",
                                        "f.json");
  CHECK(root.where() == "f.json:3");
  CHECK(root.find("a")->where() == "f.json:5");
  CHECK(root.find("b")->string() == "// no comment /* */");
  CHECK(error_of("{} /* open") ==
        "f.json:1:4: expected the end of the text, found a comment without an end");
  CHECK(error_of("[1, / 2]").find("f.json:1:5: expected a value, found '/'") == 0);
}

TEST_CASE("Escapes are decoded and written back") {
  const JsonNode root = JsonNode::parse(R"(["\"\\\/\b\f\n\r\t", "\u00e9\ud83d\ude00", "ü"])", "f");
  CHECK(root.elements()[0].string() == "\"\\/\b\f\n\r\t");
  CHECK(root.elements()[1].string() == "\xC3\xA9\xF0\x9F\x98\x80");
  const JsonNode again = JsonNode::parse(root.dump(), "g");
  for (size_t i = 0; i < 3; ++i) {
    CHECK(again.elements()[i].string() == root.elements()[i].string());
  }
}

TEST_CASE("dump reads back as the same text") {
  const std::string text =
      R"({"a":[],"b":{},"c":[1,-2,2.0,0.1,1e+300,5e-324],"d":[true,false,null],"e":{"f":["x\ny"]}})";
  CHECK(JsonNode::parse(text, "f").dump() == text);
  CHECK(JsonNode::parse("24.0", "f").dump() == "24.0");
  CHECK(JsonNode::parse("\"\\u0001\"", "f").dump() == "\"\\u0001\"");
}

TEST_CASE("found shows a value as a person would") {
  const auto found = [](const char* text) { return JsonNode::parse(text, "f").found(); };
  CHECK(found("\"abc\"") == "\"abc\"");
  CHECK(found("-4") == "-4");
  CHECK(found("0.25") == "0.25");
  CHECK(found("{\"a\": 1}") == "an object");
  CHECK(found("[1, 2, 3]") == "a list of 3");
  CHECK(found("[]") == "an empty list");
  CHECK(found("null") == "null");
  CHECK(JsonNode::parse('"' + std::string(100, 'x') + '"', "f").found() ==
        '"' + std::string(40, 'x') + "...\"");
  // Cut between characters, never inside one.
  std::string umlauts;
  for (int i = 0; i < 41; ++i) umlauts += "ü";
  CHECK(JsonNode::parse('"' + umlauts + '"', "f").found() == '"' + umlauts.substr(0, 80) + "...\"");
}

TEST_CASE("Duplicate keys name both lines") {
  CHECK(error_of("{\"o\": {\n \"a\": 1,\n \"b\": 2,\n \"a\": 3}}") ==
        "f.json:4:2: o.a: expected each key once, found it again (first: f.json:2)");
  CHECK(error_of(R"({"a": 1, "\u0061": 2})").find("expected each key once") != std::string::npos);
  CHECK_NOTHROW(JsonNode::parse(R"({"a": {"a": 1}, "b": {"a": 2}})", "f"));
}

TEST_CASE("Bad JSON is located and named") {
  struct Row {
    std::string text, message;
  };
  const std::vector<Row> rows = {
      {"", "1:1: expected a value, found the end of the text"},
      {"  \n ", "2:2: expected a value, found the end of the text"},
      {"{", "1:2: expected a key or '}', found the end of the text"},
      {"[", "1:2: expected a value or ']', found the end of the text"},
      {"{\"a\"", "1:5: expected ':', found the end of the text"},
      {"{\"a\":", "1:6: expected a value, found the end of the text"},
      {"{\"a\" 1}", "1:6: expected ':', found '1'"},
      {"{\"a\": 1\n \"b\": 2}", "2:2: expected ',' or '}', found the string \"b\""},
      {"{\"a\": 1,}", "1:9: expected a key, found '}'"},
      {"{a: 1}", "1:2: expected a key or '}', found 'a'"},
      {"{\"a\": 1]", "1:8: expected ',' or '}', found ']'"},
      {"[1,]", "1:4: expected a value, found ']'"},
      {"[1 2]", "1:4: expected ',' or ']', found '2'"},
      {"[1,\n  2}", "2:4: expected ',' or ']', found '}'"},
      {"[tru]", "1:2: expected a value or ']', found 'tru'"},
      {"[True]", "1:2: expected a value or ']', found 'True'"},
      {"[NaN]", "1:2: expected a value or ']', found 'NaN'"},
      {"[1.]", "1:2: expected a value or ']', found '1.'"},
      {"[01]", "1:3: expected ',' or ']', found '1'"},
      {"[-]", "1:2: expected a value or ']', found '-'"},
      {"[+1]", "1:2: expected a value or ']', found '+1'"},
      {"[1e999]", "1:2: expected a number in the range of a double, found '1e999'"},
      {"[-1e999]", "1:2: expected a number in the range of a double, found '-1e999'"},
      {"[3, 9223372036854775808]",
       "1:5: expected an integer that fits in 64 bits with its sign, found '9223372036854775808'"},
      {"[99999999999999999999]",
       "1:2: expected an integer that fits in 64 bits with its sign, found '99999999999999999999'"},
      {"{} x", "1:4: expected the end of the text, found 'x'"},
      {"1 \"a\"", "1:3: expected the end of the text, found the string \"a\""},
      {"{}{", "1:3: expected the end of the text, found '{'"},
      {"'a'", "1:1: expected a value, found '''"},
      {"[\"abc", "1:2: expected a value or ']', found a string without an end"},
      {"[\"abc\n\"]", "1:6: expected a value or ']', found a string with a line break"},
      {"[\"a\tb\"]",
       "1:4: expected a value or ']', found a string with an unescaped control character"},
      {"[\"a\\x\"]", "1:5: expected a value or ']', found a string with an invalid escape"},
      {"[\"\\ud800\"]", "1:9: expected a value or ']', found a string with an invalid escape"},
      {"[\"ü\", x]", "1:7: expected a value, found 'x'"},
      {"[\"a\xFF\"]", "1:4: expected UTF-8 text, found the byte 0xFF"},
      {"[\"\xC0\x80\"]", "1:3: expected UTF-8 text, found the byte 0xC0"},
      {"[\"\xED\xA0\x80\"]", "1:3: expected UTF-8 text, found the byte 0xED"},
      {"// \xC3\n1", "1:4: expected UTF-8 text, found the byte 0xC3"},
      {std::string("1\0 2", 4), "1:2: expected UTF-8 text, found the byte 0x00"},
      {"[\x01]", "1:2: expected a value or ']', found a control character"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(error_of(row.text) == "f.json:" + row.message);
  }
}

TEST_CASE("Nesting is bounded") {
  CHECK_NOTHROW(JsonNode::parse(nested_lists(64), "f"));
  CHECK(error_of(nested_lists(65)) ==
        "f.json:1:65: expected at most 64 nested levels, found one more");
  CHECK(error_of(std::string(1000000, '[')).find("at most 64") != std::string::npos);
}

TEST_CASE("parse_file names a file that cannot be read") {
  const auto refused = [](const char* path, std::initializer_list<std::string_view> why) {
    test::check_contains(test::message_of<ConfigError>([&] { JsonNode::parse_file(path); }), why);
  };
  refused("/nonexistent/x.json", {"/nonexistent/x.json", "No such file"});
  refused("/", {"found a directory"});
  const test::TemporaryDirectory folder;
  const std::string path = folder / "a.json";
  test::write_text(path, "{\n\"a\": 5}");
  CHECK(JsonNode::parse_file(path).find("a")->where() == path + ":2");
}

TEST_CASE("set replaces, appends, creates and removes") {
  const std::string text =
      R"({"s": {"a": 1}, "l": [{"name": "data", "x": 1}, {"name": "fc", "x": [1, 2]}, 7]})";
  CHECK(after_set(text, "s.a=2").find("s")->find("a")->integer() == 2);
  CHECK(after_set(text, "s.b=text").find("s")->find("b")->string() == "text");
  CHECK(after_set(text, "s.b=\"\"").find("s")->find("b")->string().empty());
  CHECK(after_set(text, "s.a=").find("s")->find("a") == nullptr);
  CHECK(after_set(text, "s=").find("s") == nullptr);
  CHECK(after_set(text, "l.data.x=").find("l")->elements()[0].find("x") == nullptr);
  CHECK(after_set(text, "l.data.x=").find("l")->elements()[0].find("name") != nullptr);
  CHECK(after_set(text, "s.b=a=b").find("s")->find("b")->string() == "a=b");
  CHECK(after_set(text, "s.b=\"5\"").find("s")->find("b")->string() == "5");
  CHECK(after_set(text, "s.b=5").find("s")->find("b")->integer() == 5);
  CHECK(after_set(text, "s.b=1e999").find("s")->find("b")->string() == "1e999");
  CHECK(after_set(text, "s.b=./x y.bin").find("s")->find("b")->string() == "./x y.bin");
  CHECK(after_set(text, "n.e.w=true").find("n")->find("e")->find("w")->boolean());
  CHECK(after_set(text, "l.fc.x=9").find("l")->elements()[1].find("x")->integer() == 9);
  CHECK(after_set(text, "l[1].x=9").find("l")->elements()[1].find("x")->integer() == 9);
  CHECK(after_set(text, "l.1.x=9").find("l")->elements()[1].find("x")->integer() == 9);
  CHECK(
      after_set(text, "l.fc.x[1]=9").find("l")->elements()[1].find("x")->elements()[1].integer() ==
      9);
  CHECK(after_set(text, "l[2]=9").find("l")->elements()[2].integer() == 9);
  // A name wins over an index.
  CHECK(after_set(R"({"l": [{}, {"name": "0"}]})", "l.0.x=9").dump() ==
        R"({"l":[{},{"name":"0","x":9}]})");
}

TEST_CASE("set gives the new values their place") {
  const JsonNode root = after_set(R"({"l": [{"name": "fc"}]})", R"(l.fc.p={"q": [1, {"r": 2}]})");
  const JsonNode& r = *root.find("l")->elements()[0].find("p")->find("q")->elements()[1].find("r");
  CHECK(r.path() == "l[0].p.q[1].r");
  CHECK(r.where() == "--set l.fc.p");
  CHECK(root.find("l")->where() == "f.json:1");
  const JsonNode created = after_set("{}", "a.b.c=1");
  CHECK(created.find("a")->where() == "--set a.b.c");
  CHECK(created.find("a")->find("b")->path() == "a.b");
}

TEST_CASE("set says what is wrong with its argument") {
  const std::string text = R"({"s": {"a": 1}, "l": [{"name": "data"}, {"name": "fc"}, {}]})";
  CHECK(set_error(text, "s.a") == "--set: expected PATH=VALUE, found \"s.a\"");
  CHECK(set_error(text, "s.b=") ==
        "--set s.b: expected the path of a key to remove, found no \"b\"");
  CHECK(set_error(text, "t.b=") ==
        "--set t.b: expected the path of a key to remove, found no \"t\"");
  CHECK(set_error(text, "l.data=") ==
        "--set l.data: expected the path of a key to remove, found that of a list's element");
  CHECK(set_error(text, "=1") == "--set: expected PATH=VALUE, found \"=1\"");
  CHECK(set_error(text, "l.dat.x=1") ==
        "--set l.dat.x: l: expected an index below 3 or a name of data, fc, found \"dat\"");
  CHECK(set_error(text, "l[3]=1").find("expected an index below 3") != std::string::npos);
  CHECK(set_error(text, "l[-1]=1").find("expected an index below 3") != std::string::npos);
  CHECK(set_error(text, "l[1x]=1").find("expected an index below 3") != std::string::npos);
  CHECK(set_error(text, "l[fc]=1").find("expected an index below 3") != std::string::npos);
  CHECK(set_error(text, "s.a.b=1") ==
        "--set s.a.b: s.a: expected an object or a list to look up \"b\" in, found 1");
  CHECK(set_error(text, "s[0]=1") ==
        "--set s[0]: s: expected a list to look up \"0\" in, found an object");
  for (const char* path : {".a=1", "a..b=1", "a.=1", "a[=1", "a[]=1", "a[0=1", "l[0]x=1", "[=1"}) {
    INFO(path);
    CHECK(set_error(text, path).find("--set ") == 0);
  }
  CHECK(set_error(text, "s.b={\"x\": 1").find("--set s.b:1:8: expected ',' or '}'") == 0);
  CHECK(set_error(text, "s.b=[1,").find("--set s.b:1:4: expected a value") == 0);
  CHECK(set_error(text, "s.b=\"x").find("--set s.b:1:1: expected a value") == 0);
}

TEST_CASE("set cannot nest deeper than the parser") {
  std::string path = "a";
  for (int i = 0; i < 62; ++i) path += ".a";
  CHECK(set_error("{}", path + "=[]") == "no ConfigError");
  CHECK(set_error("{}", path + "=[[]]").find("at most 64") != std::string::npos);
  for (int i = 0; i < 100000; ++i) path += ".a";
  CHECK(set_error("{}", path + "=1").find("at most 64") != std::string::npos);
}

}  // namespace hlite::config
