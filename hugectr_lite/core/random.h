// Counter-based random numbers: (seed, stream, index) -> value, the same on every backend, thread
// and rank count. Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011); the tests hold its published known answers.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "hugectr_lite/core/host_device.h"

namespace hlite::random {

struct Block {
  uint32_t word[4];
};

// The ten rounds: counter (c0..c3) under key (k0, k1).
HLITE_HD inline Block philox(Block counter, uint32_t k0, uint32_t k1) {
  uint32_t a = counter.word[0], b = counter.word[1], c = counter.word[2], d = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * a;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c;
    a = static_cast<uint32_t>(p1 >> 32) ^ b ^ k0;
    b = static_cast<uint32_t>(p1);
    c = static_cast<uint32_t>(p0 >> 32) ^ d ^ k1;
    d = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

// Four words for the block `index` of `stream` under `seed`.
HLITE_HD inline Block block(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}},
                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// [0, 1) in steps of 2^-24.
HLITE_HD inline float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// The word of element `index`: element i takes word i % 4 of block i / 4.
HLITE_HD inline uint32_t word(uint64_t seed, uint64_t stream, uint64_t index) {
  const Block four = block(seed, stream, index / 4);
  // Chosen, not indexed: a GPU would put the array into memory.
  const uint32_t even = index % 4 < 2 ? four.word[0] : four.word[2];
  const uint32_t odd = index % 4 < 2 ? four.word[1] : four.word[3];
  return index % 2 == 0 ? even : odd;
}

// Stream number of a named tensor (FNV-1a, 64 bits).
inline uint64_t stream_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// out[i] = low + (high - low) * uniform(element first + i), i in [0, n).
void fill_uniform(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first, float low,
                  float high);
// out[i] = normal(0, sigma), by inverting the distribution function of element first + i: at most
// 6.3 sigma, the least of 2^32 numbers.
void fill_normal(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first,
                 float sigma);
// out[i] = normal(0, sigma) truncated at two sigma, by inverting the distribution function of
// element first + i.
void fill_truncated_normal(float* out, int64_t n, uint64_t seed, uint64_t stream, uint64_t first,
                           float sigma);

}  // namespace hlite::random
