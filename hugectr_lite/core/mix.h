// mix(): a hash of integers, for hash tables and for ids that are hashes (hash_range).
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"

namespace hlite {

// The finaliser of MurmurHash3 for 64 bits, a bijection.
HLITE_HD constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

// The id that a category has without a dictionary: key 0 (Criteo's missing token) is 0.
constexpr uint32_t hashed_id(uint64_t key, uint64_t range) {
  return key == 0 ? 0 : static_cast<uint32_t>(mix(key) % range);
}

}  // namespace hlite
