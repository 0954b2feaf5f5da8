// One line of Criteo's click logs, and the record it becomes.
//
//   line    label TAB integer x 13 TAB token x 26     label 0 or 1; token: 1 to 8 hexadecimal
//   digits record  int32 label, int32 dense[13], uint32 key[26]                              160
//   bytes
//
// The recipe of the MLPerf reference: a missing (empty) integer becomes 0, a negative one 0
// (readers take log(x + 1)); a missing token becomes key 0, a present one its number modulo
// `key_range`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hlite::tools::criteo {

inline constexpr int kDense = 13;
inline constexpr int kSlots = 26;
inline constexpr int kColumns = 1 + kDense + kSlots;
inline constexpr int kFirstKey = 1 + kDense;  // word of the record that holds key 0

// Parses one line, without its line feed; a carriage return at its end is dropped. Writes
// kColumns words to `record`. key_range 0 keeps keys as they are. Returns false for a line that is
// not of the format; `record` is unspecified then and explain() says why.
bool parse(std::string_view line, uint32_t key_range, uint32_t* record) noexcept;

// Why parse() refused `line`: "column 3 (integer 2): expected ..., found ...".
std::string explain(std::string_view line);

}  // namespace hlite::tools::criteo
