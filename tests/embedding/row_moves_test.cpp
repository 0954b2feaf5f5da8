#include "embedding/row_moves.h"

#include <algorithm>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::embedding {

TEST_CASE("the last rows close the gaps") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto rows = static_cast<uint32_t>(seed * 3);
    std::vector<uint32_t> evicted, now(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      now[i] = i;
      if (random::word(seed, 1, i) % 3 == 0) evicted.push_back(i);
    }
    const RowMoves moves = closing_moves(rows, evicted);
    REQUIRE(moves.from.size() == moves.to.size());
    for (size_t i = 0; i < moves.from.size(); ++i) {
      CHECK(moves.from[i] > moves.to[i]);
      now[moves.to[i]] = now[moves.from[i]];
    }
    now.resize(rows - evicted.size());
    std::sort(now.begin(), now.end());
    std::vector<uint32_t> want;
    for (uint32_t i = 0; i < rows; ++i)
      if (!std::binary_search(evicted.begin(), evicted.end(), i)) want.push_back(i);
    CHECK(now == want);
  }
}

}  // namespace hlite::embedding
