// Blocks of a schema as columns, and what is refused with its line and JSON path.
#include "hugectr_lite/preparation/csv/column_blocks.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::prep {
namespace {

using config::Block;
using config::JsonNode;
using BlockTexts = std::vector<std::string>;

// `text` is the object of a block.
template <typename Declare>
void read_text_block(const std::string& text, Declare&& declare) {
  const JsonNode node = JsonNode::parse(text, "schema.json");
  config::read_object(node, declare);
}

CsvColumn column_of(const std::string& text, bool header = false) {
  CsvColumn column;
  read_text_block(text, [&](Block& s) { declare_column(s, column, header); });
  return column;
}
NumberColumn number_of(const std::string& text, const ColumnRules& rules = {}) {
  NumberColumn number;
  read_text_block(text, [&](Block& s) { declare_number(s, number, rules); });
  return number;
}
// The slots of some blocks, one after the other.
std::vector<CategoryColumn> slots_of_blocks(const BlockTexts& blocks,
                                            const ColumnRules& rules = {}) {
  std::vector<CategoryColumn> slots;
  for (const std::string& block : blocks)
    read_text_block(block, [&](Block& s) { declare_categories(s, slots, rules); });
  return slots;
}
BlockTexts names_of_slots(const BlockTexts& blocks) {
  BlockTexts names;
  for (const CategoryColumn& slot : slots_of_blocks(blocks)) names.push_back(slot.name);
  return names;
}

template <typename Read>
void check_block_refused(Read&& read, std::string_view message) {
  test::check_contains(test::message_of<ConfigError>(read), {message});
}
void check_number_refused(const std::string& block, std::string_view message) {
  check_block_refused([&] { (void)number_of(block); }, message);
}
void check_slots_refused(const BlockTexts& blocks, std::string_view message) {
  check_block_refused([&] { (void)slots_of_blocks(blocks); }, message);
}

}  // namespace

TEST_CASE("a column is given by its number, or by its name in a header") {
  const CsvColumn third = column_of(R"({"column": 2})");
  CHECK(third.index == 2);
  CHECK(third.name == "column 2");
  CHECK(third.header_name.empty());
  CHECK(column_of(R"({"column": 0, "name": "age"})").name == "age");
  const CsvColumn city = column_of(R"({"column": "city"})", true);
  CHECK(city.index == -1);
  CHECK(city.header_name == "city");
  CHECK(city.name == "city");
  const CsvColumn town = column_of(R"({"column": "city", "name": "town"})", true);
  CHECK((town.header_name == "city" && town.name == "town"));
  CHECK(column_of(R"({"column": 7})", true).index == 7);

  const auto refused = [](const std::string& block, bool header, std::string_view message) {
    check_block_refused([&] { (void)column_of(block, header); }, message);
  };
  const std::string by_number =
      "expected a column number >= 0 (names need \"header\": true), found";
  refused(R"({"column": -1})", false, "schema.json:1: column: " + by_number + " -1");
  refused("{\"name\": \"x\",\n\"column\": \"city\"}", false,
          "schema.json:2: column: " + by_number + " \"city\"");
  refused(R"({"column": 1.5})", false, by_number + " 1.5");
  refused(R"({"column": -3})", true,
          "column: expected a column number >= 0 or a name of the header, found -3");
  refused(R"({"column": [0]})", true, "or a name of the header, found a list of 1");
  refused(R"({"name": "x"})", true, "schema.json:1: missing key \"column\"");
  refused(R"({"column": 1, "naem": "x"})", true, "naem");
}

TEST_CASE("no feature is read from the label") {
  const auto declare = [](const std::string& block, const ColumnRules& rules) {
    CsvColumn column;
    read_text_block(block, [&](Block& s) { declare_other_column(s, column, rules); });
    return column;
  };
  ColumnRules first;
  first.labels.resize(1);
  first.labels[0].index = 0;
  CHECK(declare(R"({"column": 1})", first).index == 1);
  check_block_refused([&] { declare(R"({"column": 0})", first); },
                      "column: expected another column than the label's, found 0");
  ColumnRules named;
  named.header = true;
  named.labels.resize(2);
  named.labels[1].header_name = "buys";
  CHECK(declare(R"({"column": "city"})", named).header_name == "city");
  check_block_refused([&] { declare(R"({"column": "buys"})", named); },
                      "column: expected another column than the label's, found \"buys\"");
}

TEST_CASE("a column has the missing texts of all columns, then its own") {
  ColumnRules rules;
  rules.missing = {"?", "NA"};
  const CsvColumn column = number_of(R"({"column": 1, "missing": ["-1", "?"]})", rules).column;
  CHECK(column.missing == BlockTexts{"?", "NA", "-1", "?"});
  CHECK(column.own_missing == BlockTexts{"-1", "?"});
  CHECK(number_of(R"({"column": 1, "missing": "none"})").column.missing == BlockTexts{"none"});
  CHECK(number_of(R"({"column": 1})", rules).column.missing == rules.missing);
  CHECK(column.missing_numbers == std::vector<double>{-1});
  CHECK(slots_of_blocks({R"({"column": 1, "missing": "x"})"}, rules).at(0).column.missing ==
        BlockTexts{"?", "NA", "x"});
}

TEST_CASE("a number may be clipped, and may be the age of a date") {
  const NumberColumn plain = number_of(R"({"column": 3})");
  CHECK_FALSE(plain.clip);
  CHECK_FALSE(plain.age);
  const NumberColumn clipped = number_of(R"({"column": 3, "clip": [-2.5, 1e3]})");
  REQUIRE(clipped.clip);
  CHECK((clipped.clip->low == -2.5 && clipped.clip->high == 1000));
  check_number_refused(R"({"column": 3, "clip": [5, 5]})",
                       "clip[1]: expected a number above 5, the lowest one, found 5");
  check_number_refused(R"({"column": 3, "clip": [5, -5]})", "the lowest one, found -5");
  check_number_refused(R"({"column": 3, "clip": [1, 2, 3]})",
                       "clip: expected two numbers, the lowest and the highest, found a list of 3");

  // 11,017 days from 1970 to the first of March 2000: 30 years, 7 leap days before, 31 + 29 days.
  const NumberColumn age = number_of(
      R"({"column": 3, "date": {"format": "%Y-%m-%d %H:%M:%S.%f", "age": "hours",
          "since": "2000-03-01 01:00:02.25", "malformed": "missing"}})");
  REQUIRE(age.age);
  CHECK(age.age->hours);
  CHECK(age.age->since == (30 * 365 + 7 + 31 + 29) * 86400.0 + 3602.25);
  CHECK(age.age->date.malformed_is_missing);
  CHECK_FALSE(age.age->other);
  const NumberColumn between = number_of(
      R"({"column": 3, "date": {"format": "%Y", "age": "days",
          "since": {"column": 4, "format": "%y", "missing": "-"}}})");
  REQUIRE(between.age);
  CHECK_FALSE(between.age->hours);
  CHECK_FALSE(between.age->date.malformed_is_missing);
  REQUIRE(between.age->other);
  CHECK(between.age->other->index == 4);
  CHECK(between.age->other->missing == BlockTexts{"-"});
  CHECK(between.age->date.format.text() == "%Y");
  CHECK(between.age->other_date.format.text() == "%y");
}

TEST_CASE("ages that cannot be computed are refused") {
  const auto refused = [](const std::string& date, std::string_view message) {
    check_number_refused("{\"column\": 3, \"date\": {" + date + "}}", message);
  };
  const std::string format = R"("format": "%Y-%m-%d", )", age = R"("age": "days", )";
  refused(age + R"("since": "2000-01-01")", "date: missing key \"format\"");
  refused(format + R"("since": "2000-01-01")", "date: missing key \"age\"");
  refused(format + R"("age": "days")", "date: missing key \"since\"");
  refused(format + R"("age": "weeks", "since": "2000-01-01")", "date.age");
  refused(format + age + R"("since": "2000-02-30")",
          "date.since: expected a date as \"%Y-%m-%d\", or the block of a column, found "
          "\"2000-02-30\"");
  refused(R"("format": "%m-%d", )" + age + R"("since": "01-01")",
          "date.format: expected a format with %Y for an age, found \"%m-%d\"");
  refused(R"("format": "%Q", )" + age + R"("since": "1")", "date.format: ");
  refused(format + age + R"("since": "2000-01-01", "malformed": "zero")", "date.malformed");
  refused(format + age + R"("since": {"column": 4, "format": "%d"})",
          "date.since.format: expected a format with %Y for an age, found \"%d\"");
  ColumnRules label;
  label.labels.resize(1);
  label.labels[0].index = 4;
  check_block_refused(
      [&] {
        (void)number_of(R"({"column": 3, "date": {"format": "%Y", "age": "days",
                            "since": {"column": 4}}})",
                        label);
      },
      "date.since.column: expected another column than the label's, found 4");
}

TEST_CASE("a categorical column is a field, a bucket, or some parts of a date") {
  const CategoryColumn field = slots_of_blocks({R"({"column": 5, "vocabulary": "city"})"}).at(0);
  CHECK(field.kind == CategoryColumn::Kind::kField);
  CHECK(field.name == "column 5");
  CHECK(field.column.index == 5);
  CHECK(field.vocabulary == "city");

  const CategoryColumn bucket =
      slots_of_blocks({R"({"column": 5, "name": "age", "buckets": [-0.0, 18, 1e3]})"}).at(0);
  CHECK(bucket.kind == CategoryColumn::Kind::kNumber);
  CHECK(bucket.name == "age");
  REQUIRE(bucket.buckets);
  CHECK(bucket.buckets->edges() == std::vector<double>{0, 18, 1000});
  CHECK(bucket.buckets->token(-1e-300) == "[-inf, 0)");  // not -0
  CHECK(bucket.is_fitted());
  for (const int64_t quantiles : {2, 1000}) {
    const CategoryColumn part =
        slots_of_blocks({fmt::format(R"({{"column": 5, "quantiles": {}}})", quantiles)}).at(0);
    CHECK(part.quantiles == quantiles);
    CHECK_FALSE(part.is_fitted());
  }

  const auto parts = slots_of_blocks(
      {R"({"column": 5, "name": "day", "date": {"format": "%Y-%m-%d", "parts": ["weekday", "month"]}})"});
  REQUIRE(parts.size() == 2);
  CHECK((parts[0].name == "day weekday" && parts[1].name == "day month"));
  CHECK((parts[0].part == DatePart::kWeekday && parts[1].part == DatePart::kMonth));
  for (const CategoryColumn& part : parts) {
    CHECK(part.kind == CategoryColumn::Kind::kDatePart);
    CHECK(part.column.index == 5);
    CHECK(part.date.format.text() == "%Y-%m-%d");
  }
}

TEST_CASE("buckets, quantiles and parts of a date that make no column are refused") {
  check_slots_refused({R"({"column": 5, "buckets": []})"}, "buckets: expected at least one edge");
  check_slots_refused({R"({"column": 5, "buckets": [1, 2, 2]})"},
                      "buckets[2]: expected ascending edges, found 2 after 2");
  check_slots_refused({R"({"column": 5, "buckets": [0, -0.0]})"},
                      "buckets[1]: expected ascending edges");
  for (const char* few : {"1", "1001", "2.5"})
    check_slots_refused({fmt::format(R"({{"column": 5, "quantiles": {}}})", few)},
                        fmt::format("found {}", few));
  check_slots_refused({R"({"column": 5, "quantiles": 3, "buckets": [1]})"},
                      "quantiles: expected buckets or quantiles, found both");
  check_slots_refused({R"({"column": 5, "vocabulary": ""})"}, "vocabulary: expected a name");
  const auto date = [](const std::string& parts, const std::string& format) {
    return BlockTexts{
        fmt::format(R"({{"column": 5, "date": {{"format": "{}", "parts": {}}}}})", format, parts)};
  };
  check_slots_refused(date("[]", "%Y"), "date.parts: expected at least one part of a date");
  check_slots_refused(date(R"(["year", "year"])", "%Y"),
                      "date.parts: expected each part once, found \"year\" again");
  check_slots_refused(date(R"(["age"])", "%Y"),
                      "date.parts: expected parts of a date (year, quarter, month, day, weekday, "
                      "hour, minute), found \"age\"");
  check_slots_refused(date(R"(["hour"])", "%Y"),
                      "date.format: expected a format with %H for the part hour, found \"%Y\"");
  check_slots_refused(date(R"(["weekday"])", "%Y-%d"),
                      "date.format: expected a format with %m for the part weekday");
  check_slots_refused({R"({"column": 5, "date": {"format": "%Y"}})"},
                      "date: missing key \"parts\"");
}

TEST_CASE("a cross is of two or three columns before it, or blocks of its own") {
  const BlockTexts before = {R"({"column": 1, "name": "a"})",
                             R"({"column": 2, "name": "b", "buckets": [0]})"};
  const auto with = [&](const std::string& block) {
    BlockTexts blocks = before;
    blocks.push_back(block);
    return blocks;
  };
  const CategoryColumn cross = slots_of_blocks(with(R"({"cross": ["b", "a"]})")).at(2);
  CHECK(cross.kind == CategoryColumn::Kind::kCross);
  CHECK(cross.name == "b x a");
  REQUIRE(cross.of.size() == 2);
  CHECK((cross.of[0].number.column.index == 2 && cross.of[1].column.index == 1));
  CHECK((cross.hash == 0 && cross.limit == 1'000'000));
  const CategoryColumn three =
      slots_of_blocks(
          with(
              R"({"cross": ["a", {"column": 9}, {"column": 3, "date": {"format": "%H", "parts": ["hour"]}}],
          "hash": 2147483648, "limit": 1})"))
          .at(2);
  CHECK(three.name == "a x column 9 x column 3 hour");
  CHECK(three.hash == int64_t{1} << 31);
  CHECK(three.limit == 1);
  CHECK(names_of_slots(with(R"({"cross": ["a", "b"], "name": "both"})")) ==
        BlockTexts{"a", "b", "both"});

  const auto refused = [&](const std::string& block, std::string_view message) {
    check_slots_refused(with(block), message);
  };
  const std::string count = "cross: expected two or three categorical columns, found a list of ";
  refused(R"({"cross": ["a"]})", count + "1");
  refused(R"({"cross": ["a", "b", "a", "b"]})", count + "4");
  refused("{\"cross\": [\"a\",\n\"c\"]}",
          "schema.json:2: cross[1]: expected the block of a categorical column, or the name of one "
          "before it (\"a\", \"b\"), found \"c\"");
  check_slots_refused({R"({"cross": ["a", "b"]})"}, "before it (there is none), found \"a\"");
  refused(R"({"cross": ["a", {"column": 4, "quantiles": 3}]})",
          "cross[1]: expected a column whose categories follow from the schema, found quantiles: "
          "take buckets");
  refused(R"({"cross": ["a", {"column": 4, "vocabulary": "v"}]})",
          "cross[1]: expected no vocabulary in a column of a cross, whose pairs are numbered");
  refused(
      R"({"cross": ["a", {"column": 4, "date": {"format": "%H:%M", "parts": ["hour", "minute"]}}]})",
      "cross[1]: expected one part of a date, found several");
  refused(R"({"cross": ["a", {"cross": ["a", "b"]}]})", "cross[1]");
  check_slots_refused(
      {before[0], before[1], R"({"cross": ["a", "b"], "name": "ab"})", R"({"cross": ["a", "ab"]})"},
      "cross[1]: expected a column that is no cross: list its columns instead");
  for (const char* key : {"hash", "limit"})
    refused(fmt::format(R"({{"cross": ["a", "b"], "{}": 0}})", key), std::string(key) + ": ");
  refused(R"({"cross": ["a", "b"], "hash": 2147483649})", "hash: ");
  refused(R"({"cross": ["a", "b"], "column": 1})", "column");
}

}  // namespace hlite::prep
