#include "hugectr_lite/preparation/csv/header_guess.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

using Fields = std::vector<std::string>;

// Columns of `rows` rows: texts that differ, two texts, whole numbers below 100, fractions below 10,
// 0 and 1, and numbers that count up.
enum Column { kTexts, kTwoTexts, kWhole, kFractions, kBits, kIndex };

FirstLine first_line(const std::vector<std::pair<Column, std::string>>& columns, int rows = 100) {
  Fields fields;
  std::vector<ColumnFacts> facts;
  for (const auto& [kind, field] : columns) {
    fields.push_back(field);
    ColumnFacts& column = facts.emplace_back();
    for (int i = 0; i < rows; ++i) {
      const Fields of_kind = {fmt::format("t{}", i * i),
                              i % 3 == 0 ? "red" : "blue",
                              fmt::format("{}", (i * 37 + 5) % 100),
                              fmt::format("{:.2f}", (i * 37 + 5) % 100 / 10.0),
                              fmt::format("{}", i % 2),
                              fmt::format("{}", i + 1)};
      column.add(of_kind[kind], i + 2);
    }
  }
  return guess_first_line(fields, facts);
}

}  // namespace

TEST_CASE("texts are names above numbers, and above a few values that they are none of") {
  CHECK(first_line({{kTexts, "user"}, {kWhole, "age"}}) == FirstLine::kNames);
  CHECK(first_line({{kTexts, "user"}, {kTwoTexts, "color"}}) == FirstLine::kNames);
  CHECK(first_line({{kTexts, "user"}, {kTexts, "item"}}) == FirstLine::kUnclear);
  CHECK(first_line({{kWhole, "age"}, {kTwoTexts, "red"}}) == FirstLine::kRow);
  CHECK(first_line({{kWhole, "NA"}, {kTexts, "user"}}) == FirstLine::kRow);
  CHECK(first_line({{kWhole, "age"}, {kTexts, ""}}) == FirstLine::kRow);
  CHECK(first_line({{kIndex, ""}, {kTexts, "user"}}) == FirstLine::kNames);  // as pandas writes it
  CHECK(first_line({{kWhole, ""}, {kTexts, "user"}}) == FirstLine::kUnclear);
  CHECK(first_line({{kTexts, "user"}, {kWhole, "age"}}, 0) == FirstLine::kRow);
}

TEST_CASE("a text above numbers makes names of numbers next to it") {
  CHECK(first_line({{kTexts, "user"}, {kWhole, "2021"}, {kBits, "label"}}) == FirstLine::kNames);
  CHECK(first_line({{kIndex, ""}, {kFractions, "0"}, {kBits, "1"}}) == FirstLine::kNames);
  CHECK(first_line({{kWhole, "7"}, {kWhole, "7"}, {kBits, "label"}}) == FirstLine::kRow);
}

TEST_CASE("ascending whole numbers that two columns would not have are names") {
  CHECK(first_line({{kTexts, "0"}, {kFractions, "1"}, {kWhole, "2"}}) == FirstLine::kNames);
  CHECK(first_line({{kWhole, "2021"}, {kWhole, "2022"}}) == FirstLine::kNames);
  CHECK(first_line({{kTwoTexts, "0"}, {kWhole, "1"}, {kBits, "2"}}) == FirstLine::kNames);
  CHECK(first_line({{kWhole, "0"}, {kBits, "1"}, {kBits, "2"}, {kBits, "3"}}) == FirstLine::kNames);
}

TEST_CASE("numbers that may be a row are unclear, unless no header would have them") {
  CHECK(first_line({{kWhole, "2021"}, {kWhole, "50"}}) == FirstLine::kUnclear);
  CHECK(first_line({{kWhole, "2022"}, {kWhole, "2021"}}) == FirstLine::kUnclear);  // not ascending
  CHECK(first_line({{kWhole, "2021"}, {kWhole, "2022"}}, 9) == FirstLine::kUnclear);
  CHECK(first_line({{kWhole, "0"}, {kBits, "1"}}) == FirstLine::kUnclear);
  CHECK(first_line({{kFractions, "0.25"}, {kFractions, "0.5"}}) == FirstLine::kUnclear);
  CHECK(first_line({{kFractions, "0.5"}, {kFractions, "0.25"}, {kWhole, "7"}}) == FirstLine::kRow);
  CHECK(first_line({{kFractions, "0.5"}, {kFractions, "99.5"}, {kWhole, "7"}}) ==
        FirstLine::kUnclear);  // far from the others
  CHECK(first_line({{kWhole, "7"}, {kBits, "1"}, {kTwoTexts, "red"}}) == FirstLine::kRow);
  CHECK(first_line({{kWhole, "1"}, {kBits, "1"}}) == FirstLine::kRow);
}

}  // namespace hlite::prep
