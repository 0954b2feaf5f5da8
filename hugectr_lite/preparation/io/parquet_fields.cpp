#include "hugectr_lite/preparation/io/parquet_fields.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/number_text.h"
#include "hugectr_lite/preparation/io/hexadecimal.h"

namespace hlite::prep {

namespace {

using data::parquet::ParquetColumn;
using data::parquet::ParquetFile;
using data::parquet::Text;
using data::parquet::ValueType;

constexpr int64_t kPieceLevels = 4096;

// Returns true if a text can be a field as it is.
bool is_plain(std::string_view text, char separator) {
  bool plain = true;
  for (const char c : text) plain &= c != separator && c != '"' && c != '\r' && c != '\n';
  return plain;
}

}  // namespace

bool add_field(std::string_view text, const TextForm& form, LineBuffer& out) {
  const auto [separator, quotes] = std::pair(form.separator, form.quotes);
  const auto has = [&](char c) { return text.find(c) != std::string_view::npos; };
  if (!quotes && (has('\n') || has(separator))) return false;
  if (!quotes || is_plain(text, separator)) {
    out.add(text);
    return true;
  }
  out.add('"');
  for (const char c : text) out.add(c == '"' ? "\"\"" : std::string_view(&c, 1));
  out.add('"');
  return true;
}

ParquetFields::ParquetFields(const ParquetFile& file, int group, int column, const TextForm& form,
                             bool hexadecimal)
    : rows_(file, group, column),
      max_defined_(file.columns()[static_cast<size_t>(column)].max_defined),
      form_(form),
      add_(function_for(file.columns()[static_cast<size_t>(column)], hexadecimal)) {}

ParquetFields::Add ParquetFields::function_for(const ParquetColumn& column, bool hexadecimal) {
  const auto either = [&](Add digits, Add decimal) { return hexadecimal ? digits : decimal; };
  switch (column.values) {
    case ValueType::kBool:
      return &ParquetFields::add_number<bool>;
    case ValueType::kInt32:
      return either(&ParquetFields::add_hexadecimal<int32_t>, &ParquetFields::add_number<int32_t>);
    case ValueType::kUint32:
      return either(&ParquetFields::add_hexadecimal<uint32_t>,
                    &ParquetFields::add_number<uint32_t>);
    case ValueType::kInt64:
      return either(&ParquetFields::add_hexadecimal<int64_t>, &ParquetFields::add_number<int64_t>);
    case ValueType::kUint64:
      return either(&ParquetFields::add_hexadecimal<uint64_t>,
                    &ParquetFields::add_number<uint64_t>);
    case ValueType::kFloat:
      return &ParquetFields::add_number<float>;
    case ValueType::kDouble:
      return &ParquetFields::add_number<double>;
    case ValueType::kText:
      return &ParquetFields::add_text;
    case ValueType::kOther:
      break;
  }
  raise<Error>("column \"{}\" of {} has no text", column.name, column.type);
}

void ParquetFields::add_to(LineBuffer& out) {
  if (level_ == piece_.levels) refill();
  if (piece_.definition == nullptr || piece_.definition[level_] == max_defined_) {
    (this->*add_)(out);
    ++value_;
  }
  ++level_;
  ++row_;
}

void ParquetFields::refill() {
  const Text* const dictionary = piece_.dictionary;
  piece_ = rows_.next(kPieceLevels);
  level_ = value_ = 0;
  if (piece_.indices != nullptr &&
      (piece_.dictionary != dictionary || std::ssize(ready_) != piece_.dictionary_size))
    make_ready();
}

// Rows come to a dictionary's texts in any order: what they copy lies in one place, not in two.
void ParquetFields::make_ready() {
  ready_.resize(static_cast<size_t>(piece_.dictionary_size));
  for (size_t i = 0; i < ready_.size(); ++i) {
    const std::string_view text(piece_.dictionary[i].data, piece_.dictionary[i].size);
    Ready& ready = ready_[i];
    ready.size = kSlow;
    if (text.size() > sizeof(ready.text) || !is_plain(text, form_.separator)) continue;
    std::copy(text.begin(), text.end(), ready.text);
    ready.size = static_cast<uint8_t>(text.size());
  }
}

template <typename T>
void ParquetFields::add_number(LineBuffer& out) {
  const T x = static_cast<const T*>(piece_.data)[value_];
  if constexpr (std::is_same_v<T, bool>) {
    out.add(x ? '1' : '0');
  } else {
    static_assert(kNumberBytes <= static_cast<int64_t>(LineBuffer::kShort));
    char* digits = out.reserve(0);
    out.added(static_cast<size_t>(write_number(x, digits) - digits));
  }
}

template <typename T>
void ParquetFields::add_hexadecimal(LineBuffer& out) {
  const T x = static_cast<const T*>(piece_.data)[value_];
  // A negative 32-bit number is one without sign that was stored with it.
  const auto bits = static_cast<uint32_t>(x);
  if (sizeof(T) > 4 && static_cast<T>(bits) != x)
    rows_.fail(row_, fmt::format("a number of 32 bits, found {}", x));
  char digits[8];  // of which the last ones count
  put_hexadecimal(bits, digits);
  const auto count = static_cast<size_t>((std::bit_width(bits | 1) + 3) / 4);
  std::memcpy(out.reserve(0), digits + 8 - count, count);
  out.added(count);
}

void ParquetFields::add_text(LineBuffer& out) {
  if (piece_.indices == nullptr)
    return add_plain_text(static_cast<const Text*>(piece_.data)[value_], out);
  constexpr int64_t kAhead = 8;
  const int64_t later = std::min(value_ + kAhead, piece_.values - 1);
  __builtin_prefetch(&ready_[static_cast<size_t>(piece_.indices[later])]);
  const int32_t index = piece_.indices[value_];
  const Ready& ready = ready_[static_cast<size_t>(index)];
  if (ready.size == kSlow) return add_plain_text(piece_.dictionary[index], out);
  std::memcpy(out.reserve(0), &ready, sizeof(ready));
  out.added(ready.size);
}

void ParquetFields::add_plain_text(const Text& text, LineBuffer& out) {
  const std::string_view view(text.data, text.size);
  if (!add_field(view, form_, out))
    rows_.fail(row_, fmt::format("a text without line feed and {}, found {}",
                                 in_quotes(std::string(1, form_.separator)), in_quotes(view)));
}

}  // namespace hlite::prep
