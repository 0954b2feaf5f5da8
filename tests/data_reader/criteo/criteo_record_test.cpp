#include "data_reader/criteo/criteo_record.h"

#include <array>
#include <cstring>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::criteo {
namespace {

using data::ColumnArrays;
using data::LineKind;
using data::ParsedFront;
using data::RowLayout;

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

TEST_CASE("every length of number and token is read, wherever the line ends") {
  // The same line parsed from memory that ends with it, so that reading beyond it would show.
  const auto exact = [](const std::string& line, std::array<uint32_t, kColumns>& record) {
    const std::vector<char> copy(line.begin(), line.end());
    return parse({copy.data(), copy.size()}, 0, record.data());
  };
  std::array<uint32_t, kColumns> record{};
  uint32_t number = 0, token = 0;
  std::string digits, hex;
  for (int length = 0; length <= 9; ++length) {
    for (const std::string& tail : {std::string(), std::string("\r")}) {
      INFO("integers \"" << digits << "\", tokens \"" << hex << "\"");
      REQUIRE(exact(line_of("1", digits, length <= 8 ? hex : "") + tail, record));
      CHECK(record[1] == number);
      CHECK(record[kDense] == number);
      if (length > 8) continue;
      CHECK(record[kFirstKey] == token);
      CHECK(record[kColumns - 1] == token);
    }
    number = number * 10 + static_cast<uint32_t>(9 - length);
    digits += static_cast<char>('9' - length);
    const uint32_t digit = static_cast<uint32_t>(length * 7 + 11) % 16;
    token = token << 4 | digit;
    hex += "0123456789aBcDeF"[digit];
  }
}

TEST_CASE("each byte in each place of a field is taken or refused as the format says") {
  for (int place = 0; place < 8; ++place) {
    for (int byte = 1; byte < 256; ++byte) {
      const auto c = static_cast<char>(byte);
      if (c == '\t' || c == '\n') continue;
      std::string token = "1a2B3c4D", integer = "12345678";
      token[static_cast<size_t>(place)] = c;
      integer[static_cast<size_t>(place)] = c;
      const bool is_digit = c >= '0' && c <= '9';
      const bool is_hex = is_digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      INFO("byte " << byte << " in place " << place);
      CHECK(parsed(line_of("0", "7", token)).good == is_hex);
      CHECK(parsed(line_of("0", integer, "7")).good == (is_digit || (c == '-' && place == 0)));
      CHECK(parsed(line_of("0", integer.substr(0, static_cast<size_t>(place) + 1), "7")).good ==
            is_digit);
    }
  }
}

TEST_CASE("the remainder without a division is the remainder") {
  for (const uint32_t range : {1u, 2u, 3u, 7u, 40000000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    const KeyRange remainder(range);
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint32_t x = random::word(8, 0, i);
      REQUIRE(remainder(x) == x % range);
    }
    for (const uint32_t x : {0u, 1u, range - 1, range, range + 1, 0xfffffffeu, 0xffffffffu})
      REQUIRE(remainder(x) == x % range);
  }
  CHECK(KeyRange(0)(0xffffffffu) == 0xffffffffu);
}

TEST_CASE("columns get what records get, and missing tokens are counted") {
  const RowLayout layout{.dense = kDense, .slots = kSlots};
  std::vector<std::byte> memory(kColumns * 64);
  std::array<int64_t, kSlots> missing{};
  const ColumnArrays columns(layout, memory.data(), 64, missing.data());
  std::string line = line_of("1", "5", "ff");
  line.replace(line.rfind("\tff"), 3, "\t");
  REQUIRE(parse(line, KeyRange(100), columns, 3));
  CHECK(columns.label()[3] == 1);
  CHECK(columns.dense<uint32_t>(12)[3] == 5);
  CHECK(columns.key<uint32_t>(0)[3] == 55);
  CHECK(columns.key<uint32_t>(25)[3] == 0);
  CHECK(missing[0] == 0);
  CHECK(missing[25] == 1);
  CHECK_FALSE(parse(line + "g", KeyRange(100), columns, 4));
  CHECK(missing[25] == 1);
}

// The rows of a text, and missing tokens, line by line and by parse_front().
struct Columns {
  explicit Columns(size_t rows)
      : stride((rows + ColumnArrays::kRowsBeyond) * sizeof(uint32_t)), memory(kColumns * stride) {}
  size_t stride;
  std::vector<std::byte> memory;
  std::vector<int64_t> missing = std::vector<int64_t>(kSlots);
  [[nodiscard]] ColumnArrays arrays() {
    return {RowLayout{.dense = kDense, .slots = kSlots}, memory.data(), stride, missing.data()};
  }
  [[nodiscard]] std::vector<uint32_t> row(int64_t number) {
    std::vector<uint32_t> words;
    for (int c = 0; c < kColumns; ++c) words.push_back(arrays().dense<uint32_t>(c - 1)[number]);
    return words;
  }
};

TEST_CASE("many lines at once are what each of them is", "[baseline]") {
  for (const bool labelled : {true, false}) {
    const auto lines = make_line_parser(40000000, labelled);
    std::string text = prep::awkward_rows(31, 200);
    for (int i = 0; i < 3; ++i) text += line_of("1", std::to_string(-i), "") + "\n";
    text += line_of("1", "99999999", "FFffFFff") + "\r\n";
    if (!labelled)
      for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) text.erase(at, 2);
    const std::vector<char> exact(text.begin(), text.end());  // reading beyond it would show
    const std::string_view view(exact.data(), exact.size());
    Columns fast(204), slow(204);
    const auto keeps = [](int64_t line) { return line % 5 != 3; };
    const ParsedFront front = lines->parse_front(1, view, fast.arrays(), 0, keeps);
    CHECK(front.lines >= 190);
    std::vector<int64_t> missing(kSlots);
    int64_t number = 1, row = 0;
    for (size_t at = 0; at < front.bytes; ++number) {
      const size_t end = view.find('\n', at);
      if (keeps(number)) {
        REQUIRE(lines->parse(number, view.substr(at, end - at), slow.arrays(), row) ==
                LineKind::kRow);
        CHECK(fast.row(row) == slow.row(row));
        ++row;
      }
      at = end + 1;
    }
    CHECK(front.rows == row);
    CHECK(front.lines == number - 1);
    CHECK(fast.missing == slow.missing);
  }
}

TEST_CASE("many lines at once end before a line that is none", "[baseline]") {
  const auto lines = make_line_parser(0);
  const auto all = [](int64_t) { return true; };
  const auto rows_before = [&](const std::string& line) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += (i == 21 ? line : line_of("0", "7", "f")) + "\n";
    Columns columns(40);
    const ParsedFront front = lines->parse_front(1, text, columns.arrays(), 0, all);
    CHECK(columns.missing == std::vector<int64_t>(kSlots));
    return front.rows;
  };
  CHECK(rows_before(line_of("1", "-3", "0")) >= 38);
  for (const std::string& bad :
       {std::string(), line_of("2", "1", "f"), line_of("", "1", "f"), line_of("00", "1", "f"),
        line_of("0", "1", "f") + "\t", line_of("0", "1", "f").substr(2), line_of("0", "-", "f"),
        line_of("0", "1-", "f"), line_of("0", "--1", "f"), line_of("0", "1", "123456789"),
        line_of("0", "1\n", "f")})
    CHECK(rows_before(bad) <= 21);
  for (int place = 0; place < 8; ++place) {
    for (int byte = 1; byte < 256; ++byte) {
      const auto c = static_cast<char>(byte);
      if (c == '\t' || c == '\n') continue;
      std::string token = "1a2B3c4D", integer = "12345678";
      token[static_cast<size_t>(place)] = c;
      integer[static_cast<size_t>(place)] = c;
      INFO("byte " << byte << " in place " << place);
      CHECK((rows_before(line_of("0", "7", token)) > 21) == parsed(line_of("0", "7", token)).good);
      CHECK((rows_before(line_of("0", integer, "7")) > 21) ==
            parsed(line_of("0", integer, "7")).good);
    }
  }
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

TEST_CASE("lines without a label are read as with a 0 in front, and messages say so") {
  const auto lines = make_line_parser(0, /*labelled=*/false);
  std::vector<std::byte> columns(kColumns * sizeof(uint32_t));
  std::vector<int64_t> missing(kSlots, 0);
  const ColumnArrays out({.dense = kDense, .slots = kSlots}, columns.data(), sizeof(uint32_t),
                         missing.data());
  const std::string line = line_of("0", "7", "f");
  REQUIRE(lines->parse(1, line.substr(2), out, 0) == LineKind::kRow);
  const Parsed with_label = parsed(line);
  CHECK(std::memcmp(columns.data(), with_label.record.data(), columns.size()) == 0);
  CHECK(lines->parse(1, line, out, 0) == LineKind::kBad);
  CHECK(lines->explain(line) ==
        "expected 40 tab-separated columns, found 41 (a label was put in front)");
}

}  // namespace
}  // namespace hlite::criteo
