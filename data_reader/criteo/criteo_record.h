// One line of Criteo's click logs, and the row it becomes.
//
//   line   label TAB integer x 13 TAB token x 26
//   label  0 or 1; integer: nothing or a 32-bit integer; token: nothing or 1 to 8 hexadecimal
//          digits
//   row    int32 label, int32 dense[13], uint32 key[26]
//
// The recipe of the MLPerf reference: a missing (empty) integer becomes 0, a negative one 0
// (readers take log(x + 1)); a missing token becomes key 0,
// a present one its number modulo a range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/data_identity.h"
#include "data_reader/text/line_parser.h"

namespace hlite::criteo {

inline constexpr int kDense = 13;
inline constexpr int kSlots = 26;
inline constexpr int kColumns = 1 + kDense + kSlots;
inline constexpr int kFirstKey = 1 + kDense;  // word of the record that holds key 0

// DataIdentity::dense of such rows, as a model sees them.
std::vector<data::DataIdentity::IdentityPart> dense_parts();

// x modulo `range` without a division. Range 0 keeps x as it is.
class KeyRange {
 public:
  explicit KeyRange(uint32_t range) : range_(range), inverse_(range > 0 ? UINT32_MAX / range : 0) {}
  [[nodiscard]] uint32_t operator()(uint32_t x) const {
    uint64_t word = x;
    reduce(word);
    return static_cast<uint32_t>(word);
  }
  // 32-bit numbers in words of 64 bits: one, or a vector of them.
  template <typename Words>
  [[gnu::always_inline]] void reduce(Words& x) const {
    // The quotient or one less, since x * (1 / range - inverse / 2^32) is below 1.
    x -= ((x * inverse_) >> 32) * range_;
    x = x >= range_ ? x - range_ : x;
  }

 private:
  uint64_t range_, inverse_;
};

// Parses one line, without its line feed; a carriage return at its end is dropped. Writes
// kColumns words to `record`. key_range 0 keeps keys as they are. Returns false for a line that is
// not of the format; `record` is unspecified then and explain() says why.
bool parse(std::string_view line, uint32_t key_range, uint32_t* record) noexcept;
// The same into element `row` of arrays of 32-bit columns; counts missing tokens.
bool parse(std::string_view line, const KeyRange& range, const data::ColumnArrays& out,
           int64_t row) noexcept;

// Why parse() refused `line`: "column 3 (integer 2): expected ..., found ...".
std::string explain(std::string_view line);

// One field of a line: of column 0 (the label), 1 to 13 (integers) or 14 to 39 (tokens, which are
// not reduced here). Returns false if it is not of the format; explain_field() says why.
bool parse_field(int column, std::string_view field, uint32_t& value) noexcept;
std::string explain_field(int column, std::string_view field);

// Lines of one file; key_range as above. Lines that are not `labelled` lack the label and its tab:
// their rows have label 0.
std::unique_ptr<const data::LineParser> make_line_parser(uint32_t key_range, bool labelled = true);

}  // namespace hlite::criteo
