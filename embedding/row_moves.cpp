#include "embedding/row_moves.h"

#include <algorithm>

namespace hlite::embedding {

RowMoves closing_moves(int64_t rows, std::span<const uint32_t> evicted) {
  const auto left = static_cast<uint32_t>(rows - std::ssize(evicted));
  RowMoves moves;
  const auto beyond = std::lower_bound(evicted.begin(), evicted.end(), left);
  moves.to.assign(evicted.begin(), beyond);
  auto next = beyond;
  for (uint32_t row = left; row < rows; ++row)
    if (next != evicted.end() && *next == row)
      ++next;
    else
      moves.from.push_back(row);
  return moves;
}

}  // namespace hlite::embedding
