// Numbers as hexadecimal digits, two at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace hlite::prep {

// The two digits of every byte.
inline constexpr std::array<char, 512> kHexadecimalPairs = [] {
  std::array<char, 512> digits{};
  for (size_t i = 0; i < digits.size(); ++i)
    digits[i] = "0123456789abcdef"[i % 2 == 0 ? i / 32 : i / 2 % 16];
  return digits;
}();

// All eight digits of a number, leading zeros included. Returns where they end.
inline char* put_hexadecimal(uint32_t value, char* to) {
  for (int shift = 24; shift >= 0; shift -= 8, to += 2)
    std::memcpy(to, &kHexadecimalPairs[2 * (value >> shift & 255)], 2);
  return to;
}

}  // namespace hlite::prep
