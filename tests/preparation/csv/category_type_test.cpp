// Each value has one token, whatever it is spelled like.
#include "hugectr_lite/preparation/csv/category_type.h"

#include <limits>

#include "hugectr_lite/core/number_text.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

// "-" for a field that is not of the type.
std::string token_of_type(CategoryType type, std::string_view field) {
  const auto token = typed_token(type, field);
  return token ? std::string(*token) : "-";
}

template <typename T>
std::string written(T x) {
  char text[kNumberBytes];
  return {text, write_number(x, text)};
}

}  // namespace

TEST_CASE("texts that stand for no value are spelled as they are listed") {
  for (const char* text : {"?", "NA", "N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", "\\N"}) {
    CHECK(is_missing_spelling(text));
    for (const CategoryType type :
         {CategoryType::kInteger, CategoryType::kBoolean, CategoryType::kNumber})
      CHECK(token_of_type(type, text).empty());
  }
  for (const char* text : {"", "na", "Null", "none", "NA ", " ?", "-", "0", "??", "\\n", "N"})
    CHECK_FALSE(is_missing_spelling(text));
}

TEST_CASE("an integer has one token in every spelling") {
  const auto token = [](std::string_view field) {
    return token_of_type(CategoryType::kInteger, field);
  };
  for (const char* field : {"100000", "100000.0", "1e5", "1e+05", "0100000", "1E5", "100000.000"})
    CHECK(token(field) == "100000");
  for (const char* field : {"0", "-0", "0.0", "-0.0", "000", "false", "False", "FALSE"})
    CHECK(token(field) == "0");
  for (const char* field : {"1", "1.0", "true", "True", "TRUE"}) CHECK(token(field) == "1");
  CHECK(token("-17.0") == "-17");
  CHECK(token("-00017") == "-17");
  CHECK(token("1e20") == "100000000000000000000");
  CHECK(token("100000000000000000000") == "100000000000000000000");
  CHECK(token("123456789012345678901234567890") == "123456789012345678901234567890");
  for (const char* field : {"6.5", "abc", "6 ", "", "-", "1e", "inf", "1e-3", "6x", "t"})
    CHECK(token(field) == "-");
}

TEST_CASE("a boolean is true or false, by word or by number") {
  const auto token = [](std::string_view field) {
    return token_of_type(CategoryType::kBoolean, field);
  };
  for (const char* field : {"true", "True", "TRUE", "1", "1.0", "1e0"})
    CHECK(token(field) == "true");
  for (const char* field : {"false", "False", "FALSE", "0", "0.0", "-0.0"})
    CHECK(token(field) == "false");
  for (const char* field : {"2", "0.5", "yes", "t", "tRUE", "", "-1"}) CHECK(token(field) == "-");
}

TEST_CASE("a number has the shortest digits of its type, and reads back as itself") {
  const auto token = [](std::string_view field) {
    return token_of_type(CategoryType::kNumber, field);
  };
  for (const char* field : {"1.5", "1.50", "15e-1", "01.5"}) CHECK(token(field) == "1.5");
  for (const char* field : {"3", "3.0", "3e0", "003"}) CHECK(token(field) == "3");
  CHECK(token(written(0.1f)) == token(written(0.1)));
  CHECK(token("true") == "1");
  for (const char* field : {"inf", "x", "", "1,5"}) CHECK(token(field) == "-");
  for (uint64_t i = 0; i < 1000; ++i) {
    const double x = (random::word(3, 1, i) - 2147483648.0) / (1 << random::word(3, 2, i) % 31);
    CHECK(parse_number<double>(token(written(x))) == x);
    CHECK(token(written(x)) == written(x));
  }
}

TEST_CASE("whole numbers are written without point and exponent, of every type") {
  CHECK(written(100000.0) == "100000");
  CHECK(written(100000.0f) == "100000");
  CHECK(written(-0.0) == "0");
  CHECK(written(9223372036854775808.0) == "9223372036854775808");
  CHECK(written(-1e29) == "-99999999999999991433150857216");
  CHECK(written(16777216.0f) == "16777216");
  CHECK(written(1e30) == "1e+30");
  CHECK(written(0.25) == "0.25");
  CHECK(written(1e-7) == "1e-07");
  CHECK(written(std::numeric_limits<uint64_t>::max()) == "18446744073709551615");
  CHECK(written(std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
}

}  // namespace hlite::prep
