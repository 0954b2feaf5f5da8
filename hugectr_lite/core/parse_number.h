// Numbers in text: the whole of it, no blanks, no plus sign, independent of the locale.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace hlite {

// Returns nullopt if the text is not a number, has trailing characters or does not fit `T`. `base`:
// of integers.
template <typename T>
std::optional<T> parse_number(std::string_view text, [[maybe_unused]] int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result parsed;
  if constexpr (std::is_floating_point_v<T>) {
    parsed = std::from_chars(text.data(), end, value);
  } else {
    parsed = std::from_chars(text.data(), end, value, base);
  }
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace hlite
