// Keys of hash tables in one word.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"

namespace hlite::embedding {

// A key by its table and number, in one word.
HLITE_HD inline uint64_t table_key(int64_t table, uint32_t key) {
  return static_cast<uint64_t>(table) << 32 | key;
}

}  // namespace hlite::embedding
