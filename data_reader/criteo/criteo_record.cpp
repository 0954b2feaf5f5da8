#include "data_reader/criteo/criteo_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>

#include "data_reader/criteo/criteo_block.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"

namespace hlite::criteo {

using data::ColumnArrays;
using data::KeepLine;
using data::LineKind;
using data::ParsedFront;

namespace {

constexpr int64_t kMaxInteger = std::numeric_limits<int32_t>::max();

// The parsers below take the text from `p` on, up to the first byte they do not understand.
// Whether the column ends there is the caller's check.

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

// Up to 8 hexadecimal digits. Returns how many there are.
int parse_token(const char* p, const char* end, uint32_t& out) noexcept {
  const char* const last = p + std::min<std::ptrdiff_t>(end - p, 8);
  return static_cast<int>(std::from_chars(p, last, out, 16).ptr - p);
}

std::string_view without_carriage_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// A whole line; `put` takes label(x), dense(k, x), key(slot, x) and, at the end of a good line,
// missing(bits), the slots without a token.
template <typename Put>
bool parse_line(std::string_view line, const Put& put) noexcept {
  line = without_carriage_return(line);
  const char* p = line.data();
  const char* end = p + line.size();
  if (p == end || (*p != '0' && *p != '1')) return false;
  put.label(static_cast<uint32_t>(*p++ - '0'));
  for (int k = 0; k < kDense; ++k) {
    if (p == end || *p++ != '\t') return false;
    uint32_t value = 0;
    if (!parse_integer(p, end, value)) return false;
    put.dense(k, value);
  }
  uint32_t missing = 0;
  for (int k = 0; k < kSlots; ++k) {
    if (p == end || *p++ != '\t') return false;
    uint32_t token = 0;
    const int digits = parse_token(p, end, token);
    p += digits;
    missing |= static_cast<uint32_t>(digits == 0) << k;
    put.key(k, token);
  }
  if (p != end) return false;
  put.missing(missing);
  return true;
}

struct PutRecord {
  KeyRange range;
  uint32_t* record;
  void label(uint32_t x) const { record[0] = x; }
  void dense(int k, uint32_t x) const { record[1 + k] = x; }
  void key(int slot, uint32_t x) const { record[kFirstKey + slot] = range(x); }
  void missing(uint32_t) const {}
};

struct PutColumns {
  const KeyRange& range;
  const ColumnArrays& out;
  int64_t row;
  void label(uint32_t x) const { out.label()[row] = x; }
  void dense(int k, uint32_t x) const { out.dense<uint32_t>(k)[row] = x; }
  void key(int slot, uint32_t x) const { out.key<uint32_t>(slot)[row] = range(x); }
  void missing(uint32_t bits) const {
    for (; bits != 0; bits &= bits - 1) out.count_missing(std::countr_zero(bits));
  }
};

// The prefix of lines that have no label.
constexpr std::string_view kLabel = "0\t";

class CriteoLines final : public data::LineParser {
 public:
  CriteoLines(KeyRange range, bool labelled) : range_(range), labelled_(labelled) {}
  LineKind parse(int64_t, std::string_view line, const ColumnArrays& out,
                 int64_t row) const override {
    return criteo::parse(whole(line), range_, out, row) ? LineKind::kRow : LineKind::kBad;
  }
  ParsedFront parse_front(int64_t number, std::string_view text, const ColumnArrays& out,
                          int64_t row, const KeepLine& keeps) const override {
    return criteo::parse_front(number, text, range_, labelled_, out, row, keeps);
  }
  [[nodiscard]] std::string explain(std::string_view line) const override {
    return criteo::explain(whole(line)) + (labelled_ ? "" : " (a label was put in front)");
  }

 private:
  [[nodiscard]] std::string_view whole(std::string_view line) const {
    if (labelled_) return line;
    thread_local std::string text;
    text = kLabel;
    return text += line;
  }

  KeyRange range_;
  bool labelled_;
};

}  // namespace

bool parse(std::string_view line, uint32_t key_range, uint32_t* record) noexcept {
  return parse_line(line, PutRecord{KeyRange(key_range), record});
}

bool parse(std::string_view line, const KeyRange& range, const ColumnArrays& out,
           int64_t row) noexcept {
  return parse_line(line, PutColumns{range, out, row});
}

std::unique_ptr<const data::LineParser> make_line_parser(uint32_t key_range, bool labelled) {
  return std::make_unique<CriteoLines>(KeyRange(key_range), labelled);
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
    uint32_t ignored = 0;
    if (!parse_field(k, field, ignored)) return explain_field(k, field);
  }
  return "unreadable";
}

bool parse_field(int column, std::string_view field, uint32_t& value) noexcept {
  const char* p = field.data();
  const char* const end = p + field.size();
  value = 0;
  if (column == 0) {
    if (field != "0" && field != "1") return false;
    value = static_cast<uint32_t>(*p - '0');
    return true;
  }
  if (column < kFirstKey) return parse_integer(p, end, value) && p == end;
  return parse_token(p, end, value) == end - p;
}

std::string explain_field(int column, std::string_view field) {
  if (column == 0)
    return fmt::format("column 1 (label): expected 0 or 1, found {}", in_quotes(field));
  if (column < kFirstKey)
    return fmt::format("column {} (integer {}): expected a 32-bit integer or nothing, found {}",
                       column + 1, column, in_quotes(field));
  return fmt::format("column {} (category {}): expected at most 8 hexadecimal digits, found {}",
                     column + 1, column + 1 - kFirstKey, in_quotes(field));
}

std::vector<data::DataIdentity::IdentityPart> dense_parts() {
  std::vector<data::DataIdentity::IdentityPart> parts;
  for (int k = 1; k <= kDense; ++k) parts.push_back({fmt::format("I{}", k), "log(x + 1)"});
  return parts;
}

}  // namespace hlite::criteo
