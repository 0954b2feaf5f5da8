// Which rows of a hash table leave it, by its VocabularyRules.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "embedding/key_counter.h"
#include "embedding/vocabulary_rules.h"

namespace hlite::embedding {

// The rows of one rank between two iterations.
struct EvictionInput {
  std::span<const uint64_t> keys;             // of each row, table_key()
  std::span<const RowUse> uses;               // same
  std::function<std::vector<float>()> norms;  // L2 norms of all rows; called if a rule asks
  int64_t iteration = 0;                      // the last one done
  int64_t before = 0;                         // after which rows left last; 0: never
  int64_t capacity = 0;
};

// Returns the rows that leave, ascending, and adds them to `counts`.
std::vector<uint32_t> choose_evicted(const VocabularyRules& rules, const EvictionInput& input,
                                     VocabularyCounts& counts);

// The counted keys that are kept: those that have been seen within steps_to_live; if more than
// three quarters of `capacity` are left, half of `capacity`, those that were seen last. In any
// order.
std::vector<CountedKey> kept_candidates(const VocabularyRules& rules,
                                        std::vector<CountedKey> candidates, int64_t iteration,
                                        int64_t capacity);

// Rows close up when some leave: the last ones move to the places of those that left. from[i] moves
// to to[i]; both ascending. `evicted`: ascending.
struct RowMoves {
  std::vector<uint32_t> from, to;
};
RowMoves closing_moves(int64_t rows, std::span<const uint32_t> evicted);

}  // namespace hlite::embedding
