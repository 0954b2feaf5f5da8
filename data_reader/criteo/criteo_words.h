// Conversion of many Criteo fields at once. A field of up to 8 characters is a word of 64 bits whose
// first character is the lowest byte; bytes after the field may hold anything. `halves` is 4 bits for
// each character short of 8: half of the distance by which a word is shifted to the left.
#pragma once

#include <cstdint>

namespace hlite::criteo {

inline constexpr unsigned kLongest = 8;  // characters of a field that fits a word

// A vector type of the compiler.
template <typename T, int kLength>
struct Vector {
  typedef T Type __attribute__((vector_size(kLength * sizeof(T))));
};

constexpr uint64_t every_byte(uint64_t byte) { return byte * 0x0101010101010101u; }
constexpr uint64_t kZeros = every_byte('0');

// Moves a field's characters to the high end of its word and fills in zeros before them. Every
// character is XORed with '0', so digits become 0 to 9.
template <typename Words>
[[gnu::always_inline]] inline void align_right(Words& words, const Words& halves) {
  words = ((words ^ kZeros) << halves) << halves;  // in two shifts, as one by 64 is undefined
}

// Converts digits to their number; an empty field and a negative number become 0. Any other field
// sets bits of `bad`.
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

// Converts up to 8 hexadecimal digits to their number. Any other field sets bits of `bad`.
template <typename Words>
[[gnu::always_inline]] inline void convert_tokens(Words& words, const Words& halves, Words& bad) {
  Words x = words;
  align_right(x, halves);  // digits become 0x00 to 0x09, letters 0x51 to 0x56 or 0x71 to 0x76
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
