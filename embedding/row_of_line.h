// RowOfLine: the map from lines of a tier (row_tier.h) to the own rows that lie in them, in memory of
// the tier's device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hlite::embedding {

struct RowOfLine {
  const uint32_t* rows = nullptr;  // of line 0; null: row r is line r
  size_t stride = 1;               // words from a line's row to the next one's
  uint32_t operator()(uint32_t line) const { return rows ? rows[line * stride] : line; }
};

}  // namespace hlite::embedding
