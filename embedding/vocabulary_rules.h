// VocabularyRules: which keys of a hash table get a row, and which rows leave it again
// (`admission`, `eviction` and `when_full` of a ...Hash embedding).
//
// Rules look at the use of a row: the number of training batches that have looked it up, and the
// last one of them. A batch counts once, however many of its samples have the key, so a use does
// not depend on how a batch is spread over ranks.
//
// Rows leave a table between two iterations: at every iteration that `interval` divides, or when a
// checkpoint is saved. DeepRec evicts at checkpoints alone ("Feature Eviction" in its
// documentation), FBGEMM by age and by a count that decays (fbgemm_gpu, EvictionPolicy).
#pragma once

#include <cstdint>

#include "embedding/row_use.h"
#include "hugectr_lite/config/block.h"

namespace hlite::embedding {

struct Admission {
  AdmissionType type = AdmissionType::kAll;
  int64_t threshold = 1;
  // Keys of a rank that kCount counts; 0: as many as its tables have rows.
  int64_t capacity = 0;
  double probability = 1;
};

struct Eviction {
  int64_t interval = 1000;  // iterations between two; 0: only when a checkpoint is saved
  int64_t steps_to_live = 0;
  int64_t min_count = 0;
  double count_decay = 1;
  double min_l2_norm = 0;
  // Returns true if any rule takes rows out of a table that is not full.
  [[nodiscard]] bool any() const { return steps_to_live > 0 || min_count > 0 || min_l2_norm > 0; }
};

enum class WhenFull {
  kError,    // the run ends
  kEvict,    // the least recently used rows are removed
  kDefault,  // new keys get no row
};

struct VocabularyRules {
  Admission admission = {};
  Eviction eviction = {};
  WhenFull when_full = WhenFull::kError;
  bool zeros = false;  // the vector of a key without a row: zeros, or else its initial values

  // Returns true if the tables keep the use of each row.
  [[nodiscard]] bool keeps_uses() const { return refuses() || eviction.any(); }
  // Returns true if a key may have no row while it is trained on.
  [[nodiscard]] bool refuses() const {
    return admission.type != AdmissionType::kAll || when_full != WhenFull::kError;
  }
};

// Shares of WhenFull::kEvict: rows leave once more than kMaxFillShare of them are taken, until
// kTargetFillShare of them are.
inline constexpr double kMaxFillShare = 0.9, kTargetFillShare = 0.8;

// Declares the keys of a hash embedding's sparse_embedding_hparam.
void declare(config::Block& s, VocabularyRules& rules);

// Counts what happened to a layer's vocabulary since the run began, on one rank or on all ranks.
struct VocabularyCounts {
  int64_t rows = 0;        // now
  int64_t candidates = 0;  // now: keys that are counted and have no row
  int64_t inserted = 0;    // rows that keys got
  // Rows that left, by the rule that took them: steps_to_live, min_count, min_l2_norm, when_full.
  int64_t expired = 0, rare = 0, small = 0, displaced = 0;
  // Requests in training that found no row: lookups on one rank, a rank's distinct keys on several.
  int64_t refused = 0;

  [[nodiscard]] int64_t evicted() const { return expired + rare + small + displaced; }
  VocabularyCounts& operator+=(const VocabularyCounts& more);
};

}  // namespace hlite::embedding
