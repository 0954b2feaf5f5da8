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

// Returns true if steps_to_live takes a row, or a counted key, of such a use.
bool is_expired(const VocabularyRules& rules, const RowUse& use, int64_t iteration);

// The counted keys that are kept: those that have been seen within steps_to_live; if more than
// three quarters of `capacity` are left, half of `capacity`, those that were seen last. In any
// order.
std::vector<CountedKey> kept_candidates(const VocabularyRules& rules,
                                        std::vector<CountedKey> candidates, int64_t iteration,
                                        int64_t capacity);

}  // namespace hlite::embedding
