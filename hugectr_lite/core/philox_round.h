// A round of Philox4x32-10 (core/random.h), for kernels that make the ten in a loop of their own.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/host_device.h"

namespace hlite::random {

inline constexpr int kPhiloxRounds = 10;

// A round for the counter (c0..c3) under key (k0, k1), which moves on for the next one.
HLITE_HD inline void philox_round(uint32_t (&counter)[4], uint32_t& k0, uint32_t& k1) {
  const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
  const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
  counter[0] = static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0;
  counter[1] = static_cast<uint32_t>(p1);
  counter[2] = static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1;
  counter[3] = static_cast<uint32_t>(p0);
  k0 += 0x9E3779B9u;
  k1 += 0xBB67AE85u;
}

}  // namespace hlite::random
