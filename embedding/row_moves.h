// RowMoves say how rows close up when some of them leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hlite::embedding {

// The last rows move to the places of those that left. from[i] moves to to[i]; both ascending.
// `evicted`: ascending.
struct RowMoves {
  std::vector<uint32_t> from, to;
};
RowMoves closing_moves(int64_t rows, std::span<const uint32_t> evicted);

}  // namespace hlite::embedding
