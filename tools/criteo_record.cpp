#include "tools/criteo_record.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "tools/quoted.h"

namespace hlite::tools::criteo {

namespace {

// Value of a hexadecimal digit, 0xff for any other byte.
constexpr std::array<uint8_t, 256> make_hex_values() {
  std::array<uint8_t, 256> values{};
  for (auto& v : values) v = 0xff;
  for (int i = 0; i < 10; ++i) values[static_cast<size_t>('0' + i)] = static_cast<uint8_t>(i);
  for (int i = 0; i < 6; ++i) {
    values[static_cast<size_t>('a' + i)] = static_cast<uint8_t>(10 + i);
    values[static_cast<size_t>('A' + i)] = static_cast<uint8_t>(10 + i);
  }
  return values;
}
constexpr std::array<uint8_t, 256> kHexValue = make_hex_values();

constexpr int64_t kMaxInteger = std::numeric_limits<int32_t>::max();

// The parsers below take the text from `p` on and leave `p` at the first byte they do not
// understand. They return false for text that is no value; whether the column ends where they
// stopped is the caller's check.

// Empty, or an optional minus sign and digits, in the range of int32. Negative numbers become 0.
bool parse_integer(const char*& p, const char* end, uint32_t& out) noexcept {
  out = 0;
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  const char* first = p;
  int64_t value = 0;
  while (p < end && *p >= '0' && *p <= '9') {
    value = value * 10 + (*p++ - '0');
    if (value > kMaxInteger + 1) return false;
  }
  if (p == first) return !negative;
  if (value > kMaxInteger + (negative ? 1 : 0)) return false;
  if (!negative) out = static_cast<uint32_t>(value);
  return true;
}

// Empty, or 1 to 8 hexadecimal digits.
bool parse_token(const char*& p, const char* end, uint32_t& out) noexcept {
  uint32_t value = 0;
  const char* last = end - p > 8 ? p + 8 : end;
  for (; p < last; ++p) {
    const uint8_t digit = kHexValue[static_cast<unsigned char>(*p)];
    if (digit == 0xff) break;
    value = value << 4 | digit;
  }
  out = value;
  return true;
}

std::string_view without_carriage_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

bool parse(std::string_view line, uint32_t key_range, uint32_t* record) noexcept {
  line = without_carriage_return(line);
  const char* p = line.data();
  const char* end = p + line.size();
  if (p == end || (*p != '0' && *p != '1')) return false;
  record[0] = static_cast<uint32_t>(*p++ - '0');
  for (int k = 0; k < kDense; ++k) {
    if (p == end || *p++ != '\t') return false;
    if (!parse_integer(p, end, record[1 + k])) return false;
  }
  for (int k = 0; k < kSlots; ++k) {
    if (p == end || *p++ != '\t') return false;
    uint32_t key = 0;
    if (!parse_token(p, end, key)) return false;
    record[kFirstKey + k] = key_range == 0 ? key : key % key_range;
  }
  return p == end;
}

std::string explain(std::string_view line) {
  line = without_carriage_return(line);
  int columns = 1;
  for (const char c : line) columns += c == '\t';
  if (columns != kColumns) {
    return fmt::format("expected {} tab-separated columns, found {}", kColumns, columns);
  }
  for (int k = 0; k < kColumns; ++k) {
    const std::string_view field = line.substr(0, line.find('\t'));
    line.remove_prefix(k + 1 < kColumns ? field.size() + 1 : field.size());
    const char* p = field.data();
    const char* end = p + field.size();
    uint32_t ignored = 0;
    if (k == 0) {
      if (field != "0" && field != "1") {
        return fmt::format("column 1 (label): expected 0 or 1, found {}", quoted(field));
      }
    } else if (k < kFirstKey) {
      if (!parse_integer(p, end, ignored) || p != end) {
        return fmt::format("column {} (integer {}): expected a 32-bit integer or nothing, found {}",
                           k + 1, k, quoted(field));
      }
    } else if (!parse_token(p, end, ignored) || p != end) {
      return fmt::format("column {} (category {}): expected at most 8 hexadecimal digits, found {}",
                         k + 1, k + 1 - kFirstKey, quoted(field));
    }
  }
  return "unreadable";
}

}  // namespace hlite::tools::criteo
