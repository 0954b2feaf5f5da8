// Keys of hash tables in one word, and the parts that they are divided into by their hash.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/mix.h"

namespace hlite::embedding {

// A key by its table and number, in one word.
HLITE_HD inline uint64_t table_key(int64_t table, uint32_t key) {
  return static_cast<uint64_t>(table) << 32 | key;
}

// A KeyFilter counts the keys of a part together, and a rank owns whole parts. So their number is
// the same for any number of ranks, which may not exceed it.
inline constexpr uint32_t kKeyParts = 1024;

// The part of a key, from mix(table_key()).
HLITE_HD inline uint32_t key_part(uint64_t hash) { return static_cast<uint32_t>(hash >> 54); }
static_assert(kKeyParts == 1u << 10);

}  // namespace hlite::embedding
