// RowUse and AdmissionType are the parts of the vocabulary rules (vocabulary_rules.h) that kernels
// need.
#pragma once

#include <cstdint>

namespace hlite::embedding {

// The use of a row by training.
struct RowUse {
  uint32_t count = 0;  // batches that looked it up; eviction may let it decay
  uint32_t last = 0;   // iteration of the last one
};

enum class AdmissionType {
  kAll,
  kCount,        // a key gets a row in the batch that is the `threshold`-th to have it
  kProbability,  // each batch that has the key admits it with `probability`
};

}  // namespace hlite::embedding
