// Digits at the front of a text, for dates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace hlite::prep {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes `least` to `most` digits, at most 9, from the front of `text`. Returns their number;
// nothing, and `text` as it was, if there are fewer.
inline std::optional<int> take_digits(std::string_view& text, size_t least, size_t most) {
  size_t size = 0;
  int value = 0;
  for (; size < std::min(most, text.size()) && is_digit(text[size]); ++size)
    value = 10 * value + (text[size] - '0');
  if (size < least) return std::nullopt;
  text.remove_prefix(size);
  return value;
}

}  // namespace hlite::prep
