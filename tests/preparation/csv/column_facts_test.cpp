// ColumnFacts against sets, counts and moments of the whole column.
#include "hugectr_lite/preparation/csv/column_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

ColumnFacts facts_of(const std::vector<std::string>& fields, int64_t first_line = 1) {
  ColumnFacts facts;
  for (const std::string& field : fields) facts.add(field, first_line++);
  return facts;
}

// The third standardized moment of numbers, in two passes; 0 of equal ones.
double skewness_by_definition(const std::vector<double>& numbers) {
  const auto n = static_cast<long double>(numbers.size());
  long double mean = 0, squares = 0, cubes = 0;
  for (const double x : numbers) mean += static_cast<long double>(x) / n;
  for (const double x : numbers) {
    const long double d = static_cast<long double>(x) - mean;
    squares += d * d / n;
    cubes += d * d * d / n;
  }
  return squares > 0 ? static_cast<double>(cubes / (squares * std::sqrt(squares))) : 0;
}

}  // namespace

TEST_CASE(
    "the type of categories is what all values are, as far as spelling does not tell them apart") {
  using Fields = std::vector<std::string>;
  for (const Fields& fields :
       {Fields{"6", "", "-12", "NA"}, Fields{"6.0", "100000.0", "7"}, Fields{"1e+05", "123456"},
        Fields{"0", "1"}, Fields{"100000000000000000000"}})
    CHECK(facts_of(fields).type() == CategoryType::kInteger);
  for (const Fields& fields : {Fields{"true", "false"}, Fields{"True", "", "True"},
                               Fields{"TRUE", "1", "0"}, Fields{"1.0", "False"}})
    CHECK(facts_of(fields).type() == CategoryType::kBoolean);
  for (const Fields& fields : {Fields{"0.5", "2", "-1.25"}, Fields{"1.50", "2.00", "0.25"},
                               Fields{"1e-07", "3"}, Fields{"2.5", ""}, Fields{"3.0", "0.25"}})
    CHECK(facts_of(fields).type() == CategoryType::kNumber);
  for (const Fields& fields :
       {Fields{"1.1", "1.10"}, Fields{"007", "12"}, Fields{"1e5", "12"}, Fields{"true", "2"},
        Fields{"true", "x"}, Fields{"5", "x"}, Fields{"", "NA"}, Fields{"inf", "1"}, Fields{}})
    CHECK(facts_of(fields).type() == CategoryType::kText);
}

TEST_CASE("a column without rows or without values is neither numeric nor coded") {
  const ColumnFacts none;
  CHECK(none.rows() == 0);
  CHECK(none.distinct() == 0);
  for (const ColumnFacts& facts : {none, facts_of({"", "NA", ""})}) {
    CHECK(facts.present() == 0);
    CHECK(facts.numbers() == 0);
    CHECK_FALSE(facts.is_numeric());
    CHECK_FALSE(facts.is_coded());
    CHECK_FALSE(facts.counts_up());
    CHECK(facts.has_few_values());
    CHECK(facts.counts().empty());
    CHECK(facts.skewness() == 0);
    CHECK(facts.first_text().empty());
    CHECK(facts.first_text_line() == 0);
  }
  CHECK_FALSE(facts_of({"", "NA", ""}).all_differ());
  CHECK(facts_of({"", "NA", "", "NA", "?"}).missing() ==
        std::map<std::string, int64_t>{{"NA", 2}, {"?", 1}});
}

TEST_CASE("the facts of a column of anything are those of its values") {
  for (const size_t rows : {1, 2, 19, 20, 21, 22, 101, 997})
    for (const uint32_t values : {3u, 20u, 21u, 5000u}) {
      INFO(rows << " rows of " << values);
      ColumnFacts facts;
      std::map<std::string, int64_t> counts, missing;
      std::vector<double> numbers;
      std::string first_text;
      int64_t first_line = 0, present = 0;
      for (size_t i = 0; i < rows; ++i) {
        const uint32_t draw = random::word(4, values, i), value = draw / 16 % values;
        const auto line = static_cast<int64_t>(3 * i + 2);  // rows of several lines
        const std::string field = draw % 16 == 0   ? ""
                                  : draw % 16 == 1 ? "NULL"
                                  : draw % 16 == 2 ? fmt::format("t{}", value)
                                  : draw % 16 == 3 ? "inf"
                                                   : fmt::format("{}", value * 0.37 - 2);
        facts.add(field, line);
        if (field == "NULL") ++missing[field];
        if (draw % 16 < 2) continue;
        ++present;
        ++counts[field];
        if (draw % 16 > 3) {
          numbers.push_back(std::stod(field));
        } else if (first_line == 0) {
          first_text = field;
          first_line = line;
        }
      }
      CHECK(facts.rows() == static_cast<int64_t>(rows));
      CHECK(facts.present() == present);
      CHECK(facts.numbers() == std::ssize(numbers));
      CHECK(facts.distinct() == std::ssize(counts));
      CHECK(facts.missing() == missing);
      CHECK(facts.first_text() == first_text);
      CHECK(facts.first_text_line() == first_line);
      CHECK(facts.is_numeric() == (present > 0 && std::ssize(numbers) == present));
      CHECK(facts.all_differ() == (counts.size() == rows));
      CHECK(facts.has_few_values() == (counts.size() <= 20));
      if (counts.size() <= 20) CHECK(facts.counts() == counts);
      CHECK(facts.never_negative() ==
            (numbers.empty() || *std::min_element(numbers.begin(), numbers.end()) >= 0));
      if (!numbers.empty()) {
        CHECK(facts.min() == *std::min_element(numbers.begin(), numbers.end()));
        CHECK(facts.max() == *std::max_element(numbers.begin(), numbers.end()));
      }
      CHECK(facts.skewness() == Approx(skewness_by_definition(numbers)).epsilon(1e-9).margin(1e-9));
    }
}

TEST_CASE("numbers with leading zeros are codes, not numbers") {
  for (const char* code : {"007", "-01", "00", "01.5", "0123456789"}) {
    INFO(code);
    const ColumnFacts facts = facts_of({"5", code, "12"});
    CHECK(facts.is_coded());
    CHECK_FALSE(facts.is_numeric());
    CHECK(facts.numbers() == 3);
    CHECK(facts.first_text().empty());
  }
  for (const char* number : {"0", "-0", "0.5", "-0.5", "0e3", "10", "100"}) {
    INFO(number);
    CHECK(facts_of({"5", number}).is_numeric());
    CHECK_FALSE(facts_of({"5", number}).is_coded());
  }
  CHECK_FALSE(facts_of({"007 James"}).is_coded());  // a text
}

TEST_CASE("digits are whole numbers without a sign, a point or an exponent") {
  for (const char* text : {"0", "7", "0012", "18446744073709551616"}) CHECK(is_digits(text));
  for (const char* text : {"", "-1", "+1", "1.0", "1e3", " 1", "x"}) CHECK_FALSE(is_digits(text));
  CHECK(facts_of({"1.5", "2"}).has_digits());
  CHECK_FALSE(facts_of({"1.5", "2.0", "-3", "x", ""}).has_digits());
}

TEST_CASE("a column counts up if each row has the whole number after the last one's") {
  using Fields = std::vector<std::string>;
  for (const Fields& fields : {Fields{"0", "1", "2"}, Fields{"-1", "0", "1"}, Fields{"41", "42.0"},
                               Fields{"999999999999", "1e12"}})
    CHECK(facts_of(fields).counts_up());
  for (const Fields& fields :
       {Fields{"1"}, Fields{"1", "1"}, Fields{"2", "1"}, Fields{"1", "3"}, Fields{"0.5", "1.5"},
        Fields{"1", "", "2"}, Fields{"1", "x", "2"}, Fields{"1", "2", "NA"}})
    CHECK_FALSE(facts_of(fields).counts_up());
}

TEST_CASE("skewness is the third standardized moment, of large numbers too") {
  // The skewness of a value that is 1 with probability p, else 0, is (1 - 2 p) / sqrt(p (1 - p)).
  CHECK(facts_of({"0", "1", "0", "0"}).skewness() ==
        Approx(0.5 / std::sqrt(0.1875)).epsilon(1e-14));
  CHECK(facts_of({"1", "0", "1", "1"}).skewness() ==
        Approx(-0.5 / std::sqrt(0.1875)).epsilon(1e-14));
  CHECK(facts_of({"7", "7", "7"}).skewness() == 0);
  CHECK(facts_of({"7"}).skewness() == 0);
  CHECK(std::abs(facts_of({"-3", "0", "3"}).skewness()) < 1e-14);
  std::vector<std::string> fields;
  std::vector<double> numbers;
  for (uint64_t i = 0; i < 1009; ++i) {
    numbers.push_back(1e9 + std::floor(std::exp(random::word(2, 2, i) % 1000 / 100.0)));
    fields.push_back(fmt::format("{}", numbers.back()));
  }
  CHECK(skewness_by_definition(numbers) > 1);
  CHECK(facts_of(fields).skewness() == Approx(skewness_by_definition(numbers)).epsilon(1e-6));
}

TEST_CASE("many values are only counted as many") {
  std::vector<std::string> fields;
  for (int i = 0; i < 20; ++i) fields.push_back(fmt::format("v{}", i));
  CHECK(facts_of(fields).has_few_values());
  CHECK(facts_of(fields).counts().size() == ColumnFacts::kFewValues);
  fields.push_back("v20");
  CHECK_FALSE(facts_of(fields).has_few_values());
  fields.push_back("v21");
  CHECK(facts_of(fields).counts().size() == ColumnFacts::kFewValues + 1);
  CHECK(facts_of(fields).distinct() == 22);
  CHECK(facts_of(fields).all_differ());
  fields.push_back("v3");
  CHECK(facts_of(fields).distinct() == 22);
  CHECK_FALSE(facts_of(fields).all_differ());
}

}  // namespace hlite::prep
