// What the values of a categorical column are, and the one spelling, the token, that each has.
//
//   type      fields                                             tokens
//   text      any                                                the field
//   integer   digits, or a number that is whole; true and false  "100000" for 100000, 100000.0, 1e+05
//   boolean   true, True, TRUE, a number that is 1; false, 0     "true", "false"
//   number    a finite number; true and false                    "1.5"; of a whole number as above
//
// Values of a typed source (Parquet, a DataFrame) become fields by write_number() (number_text.h),
// so that a value has the same token whatever it comes as. Spellings of no value, "NaN" and the
// like, are missing in all types but text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hlite::prep {

enum class CategoryType { kText, kInteger, kBoolean, kNumber };

// By the names that schemas use.
const std::vector<std::pair<std::string, CategoryType>>& category_types();
const std::string& type_name(CategoryType type);

// Texts that stand for no value wherever they are found: "?", "NA", "NULL" and the like.
bool is_missing_spelling(std::string_view text);

// True or false by one of the words above; nothing for other texts, of numbers too.
std::optional<bool> parse_boolean_word(std::string_view text);

// Digits as write_number() has them, of any length: the token of an integer, and of a number.
inline bool is_plain_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || (digits[0] == '0' && (digits.size() > 1 || negative))) return false;
  for (const char c : digits)
    if (c < '0' || c > '9') return false;
  return true;
}

// The token of a field that is not missing; empty for a spelling of no value. Points into the
// field or holds until the thread's next call. Returns nothing if the field is not of the type.
// REQUIRES type != kText.
std::optional<std::string_view> typed_token(CategoryType type, std::string_view field);

}  // namespace hlite::prep
