// Fields of Criteo's lines as words: the characters of a field, 8 at most, are one word of 64 bits,
// and vectors of words are converted at once.
#pragma once

#include <cstdint>

namespace hlite::criteo {

inline constexpr unsigned kLongest = 8;  // characters of a field

// The compiler's own vectors.
template <typename T, int kLength>
struct Vector {
  typedef T Type __attribute__((vector_size(kLength * sizeof(T))));
};

constexpr uint64_t every_byte(uint64_t byte) { return byte * 0x0101010101010101u; }
constexpr uint64_t kZeros = every_byte('0');

// Moves the characters of fields to the ends of the words and puts '0' before them, each exclusive
// or '0'.
template <typename Words>
[[gnu::always_inline]] inline void align_right(Words& words, const Words& halves) {
  words = ((words ^ kZeros) << halves) << halves;  // twice: shifts stop at 63
}

// Nothing, digits, or a minus sign and digits, which become 0. Others set bits of `bad`.
template <typename Words>
[[gnu::always_inline]] inline void convert_integers(Words& words, const Words& halves, Words& bad) {
  const Words negative = (Words)(((words & 0xff) == '-') & (halves < 4 * (kLongest - 1)));
  Words x = words ^ (negative & ('-' ^ '0'));
  align_right(x, halves);
  bad |= (x | (x + every_byte(0x7f - 9))) & every_byte(0x80);
  x = ((x << 3) + (x << 1) + (x >> 8)) & 0x00ff00ff00ff00ffu;              // pairs
  x = ((x << 6) + (x << 5) + (x << 2) + (x >> 16)) & 0x0000ffff0000ffffu;  // fours
  words = ((x & 0xffff) * 10000 + (x >> 32)) & ~negative;
}

// Up to 8 hexadecimal digits. Others set bits of `bad`.
template <typename Words>
[[gnu::always_inline]] inline void convert_tokens(Words& words, const Words& halves, Words& bad) {
  Words x = words;
  align_right(x, halves);  // bytes: 0x00 to 0x09, or 0x51 to 0x56, 0x71 to 0x76
  const Words letters = (x >> 6) & every_byte(1);
  const Words values = (x & every_byte(0x0f)) + (letters << 3) + letters;
  const Words rest = (x & ~(letters << 5)) ^ (letters << 6 | letters << 4);
  const Words from_ten_on = (values + every_byte(6)) >> 4;
  bad |= (rest & every_byte(0xf0)) | (values & every_byte(0x10)) |
         ((from_ten_on ^ letters) & every_byte(1));
  Words y = (values << 4 | values >> 8) & 0x00ff00ff00ff00ffu;
  y = (y << 8 | y >> 16) & 0x0000ffff0000ffffu;
  words = (y << 16 | y >> 32) & 0xffffffffu;
}

}  // namespace hlite::criteo
