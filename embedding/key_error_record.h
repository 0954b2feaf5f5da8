// KeyErrorRecord: where kernels note keys beyond their table; key_errors.h reads the notes.
#pragma once

#include <cstdint>

namespace hlite::embedding {

// The first key beyond its table, as kernels leave it: complements of the step and of the key
// matrix' index and the key, so that zeroed memory says none and the first is the largest.
struct KeyErrorRecord {
  unsigned long long step = 0;
  unsigned long long index_and_key = 0;  // index in the upper half
};

// The place where lookups record such keys; without a record they are only read as absent.
struct KeyRecorder {
  KeyErrorRecord* record = nullptr;  // device memory
  const int64_t* step = nullptr;     // device memory; null: every call is step 0
};

}  // namespace hlite::embedding
