// Numbers to text, as parse_number.h reads them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace hlite {

// Bytes that write_number() may write.
inline constexpr int64_t kNumberBytes = 32;

// Writes the fewest digits that distinguish x from all others of its type, a whole number below
// 1e30 without point and exponent: 1e5 is "100000", whatever its type, and -0.0 is "0". Returns
// where the text ends. REQUIRES room for kNumberBytes.
template <typename T>
char* write_number(T x, char* out) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kInteger = 9223372036854775808.0;  // 2^63
    constexpr T kFits = static_cast<T>(1e30);
    if (std::trunc(x) == x && std::abs(x) < kFits)
      return std::abs(x) < kInteger
                 ? std::to_chars(out, out + kNumberBytes, static_cast<int64_t>(x)).ptr
                 : std::to_chars(out, out + kNumberBytes, x, std::chars_format::fixed).ptr;
  }
  return std::to_chars(out, out + kNumberBytes, x).ptr;
}

}  // namespace hlite
