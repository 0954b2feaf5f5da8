#include "tools/criteo_record.h"

#include <array>

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::tools::criteo {
namespace {

// A line with the given label, the same text in all integers and in all tokens.
std::string line_of(const std::string& label, const std::string& integer,
                    const std::string& token) {
  std::string line = label;
  for (int k = 0; k < kDense; ++k) line += "\t" + integer;
  for (int k = 0; k < kSlots; ++k) line += "\t" + token;
  return line;
}

struct Parsed {
  bool good;
  std::array<uint32_t, kColumns> record;
};
Parsed parsed(const std::string& line, uint32_t range = 0) {
  Parsed p{};
  p.good = parse(line, range, p.record.data());
  return p;
}

TEST_CASE("integers are kept, clamped at zero, and zero where missing") {
  const auto dense_of = [](const std::string& integer) {
    const Parsed p = parsed(line_of("1", integer, "0a"));
    REQUIRE(p.good);
    CHECK(p.record[0] == 1);
    CHECK(p.record[1] == p.record[kDense]);
    return p.record[1];
  };
  CHECK(dense_of("0") == 0);
  CHECK(dense_of("") == 0);
  CHECK(dense_of("17") == 17);
  CHECK(dense_of("0017") == 17);
  CHECK(dense_of("-1") == 0);
  CHECK(dense_of("2147483647") == 2147483647);
  CHECK(dense_of("-2147483648") == 0);
}

TEST_CASE("tokens are hexadecimal numbers modulo the range, zero where missing") {
  const auto key_of = [](const std::string& token, uint32_t range) {
    const Parsed p = parsed(line_of("0", "1", token), range);
    REQUIRE(p.good);
    CHECK(p.record[kFirstKey] == p.record[kColumns - 1]);
    return p.record[kFirstKey];
  };
  CHECK(key_of("", 40000000) == 0);
  CHECK(key_of("a", 0) == 10);
  CHECK(key_of("AbCdEf09", 0) == 0xabcdef09u);
  CHECK(key_of("ffffffff", 0) == 0xffffffffu);
  CHECK(key_of("ffffffff", 40000000) == 0xffffffffu % 40000000);
  CHECK(key_of("00000000", 40000000) == 0);
}

TEST_CASE("a carriage return at the end is dropped") {
  CHECK(parsed(line_of("0", "1", "f") + "\r").good);
  CHECK(parsed(line_of("0", "1", "") + "\r").good);
  CHECK_FALSE(parsed(line_of("0", "1", "f") + "\r\r").good);
}

TEST_CASE("malformed lines are refused, and explain() names the column") {
  struct Case {
    std::string line;
    std::initializer_list<std::string_view> message;
  };
  const std::string good = line_of("0", "1", "f");
  const Case cases[] = {
      {"", {"expected 40 tab-separated columns, found 1"}},
      {good + "\t", {"found 41"}},
      {good.substr(0, good.size() - 2), {"found 39"}},
      {line_of("2", "1", "f"), {"column 1 (label)", "expected 0 or 1", "\"2\""}},
      {line_of("", "1", "f"), {"column 1 (label)", "\"\""}},
      {line_of("01", "1", "f"), {"column 1 (label)"}},
      {line_of("0", "1.5", "f"), {"column 2 (integer 1)", "\"1.5\""}},
      {line_of("0", "-", "f"), {"column 2 (integer 1)"}},
      {line_of("0", "+1", "f"), {"column 2 (integer 1)"}},
      {line_of("0", " 1", "f"), {"column 2 (integer 1)"}},
      {line_of("0", "2147483648", "f"), {"column 2 (integer 1)", "32-bit"}},
      {line_of("0", "-2147483649", "f"), {"column 2 (integer 1)"}},
      {line_of("0", "99999999999999999999999999", "f"), {"column 2 (integer 1)"}},
      {line_of("0", "1", "g"), {"column 15 (category 1)", "\"g\""}},
      {line_of("0", "1", "123456789"), {"column 15 (category 1)", "8 hexadecimal"}},
      {line_of("0", "1", "0x1f"), {"column 15 (category 1)"}},
      {line_of("0", "1", "\x01"), {"column 15 (category 1)", "\\x01"}},
  };
  for (const Case& c : cases) {
    INFO(c.line);
    CHECK_FALSE(parsed(c.line).good);
    test::check_contains(explain(c.line), c.message);
  }
}

TEST_CASE("explain() finds the first wrong column, in the middle too") {
  std::string line = line_of("0", "1", "f");
  line.replace(line.rfind("f\tf"), 1, "zz");
  CHECK_FALSE(parsed(line).good);
  test::check_contains(explain(line), {"column 39 (category 25)", "\"zz\""});
}

}  // namespace
}  // namespace hlite::tools::criteo
