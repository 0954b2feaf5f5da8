#include "hugectr_lite/preparation/csv/csv_record.h"

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using Fields = std::vector<std::string>;

Fields split(const std::string& line, char separator = ',', bool trim = false) {
  CsvFields fields;
  const auto problem = split_csv({.separator = separator, .trim = trim}, line, fields);
  INFO(line);
  REQUIRE_FALSE(problem.has_value());
  return {fields.fields.begin(), fields.fields.end()};
}

TEST_CASE("written fields are read back unchanged") {
  const Fields texts{"",     "plain",    " padded ",    "a,b",    "\"", "say \"hi\"",
                     "東京", "cr\rlf\n", "back\\slash", ",\"\",", "'"};
  std::string line;
  for (const std::string& text : texts) {
    if (&text != &texts.front()) line += ',';
    append_csv_field(text, line);
  }
  CsvFields fields;
  REQUIRE_FALSE(split_csv({}, line, fields));
  CHECK(Fields(fields.fields.begin(), fields.fields.end()) == texts);
  const auto written = [](const std::string& text) {
    std::string field;
    append_csv_field(text, field);
    return field;
  };
  CHECK(written("plain text") == "plain text");
  // A reader would take each of these for something else.
  for (const char* text : {",", "\n", "\r"}) CHECK(written(text) == fmt::format("\"{}\"", text));
  CHECK(written("\"") == "\"\"\"\"");
}

TEST_CASE("a line is split at its separators") {
  CHECK(split("a,b,c") == Fields{"a", "b", "c"});
  CHECK(split("") == Fields{""});
  CHECK(split(",") == Fields{"", ""});
  CHECK(split("a,b\r") == Fields{"a", "b"});
  CHECK(split("a\tb", '\t') == Fields{"a", "b"});
  CHECK(split("a;,b", ';') == Fields{"a", ",b"});
  CHECK(split(" a , b") == Fields{" a ", " b"});
  CHECK(split(" a , b c ", ',', true) == Fields{"a", "b c"});
  CHECK(split("\t a\t", '\t', true) == Fields{"", "a", ""});
  CHECK(split("\t\"a\"", '\t', true) == Fields{"", "a"});
  CHECK(split(" \t \"a\tb\" ", '\t', true) == Fields{"", "a\tb"});
  CHECK(split("\t,\t\"a,b\"", ',', true) == Fields{"", "a,b"});
}

TEST_CASE("quoted fields may hold separators and doubled quotes") {
  CHECK(split("\"a,b\",c") == Fields{"a,b", "c"});
  CHECK(split("\"say \"\"x\"\"\",") == Fields{"say \"x\"", ""});
  CHECK(split("\"\"") == Fields{""});
  CHECK(split(" \" a \" ,b", ',', true) == Fields{" a ", "b"});
  CHECK(split("a\"b,c") == Fields{"a\"b", "c"});
}

TEST_CASE("a missing closing quote, or text after one, is reported with its column") {
  CsvFields fields;
  test::check_contains(split_csv({}, "a,\"b,c", fields).value(), {"column 1", "closing quote"});
  test::check_contains(split_csv({}, "\"a\"x,b", fields).value(),
                       {"column 0", "separator", "\"x\""});
}

}  // namespace
}  // namespace hlite::prep
