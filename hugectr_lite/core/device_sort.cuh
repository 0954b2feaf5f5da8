// Wrappers around CUB's device-wide sorts and scans, which are compiled in one file only.
//
// All run on `stream`, allocate nothing and can be captured. `temporary` is device memory of at
// least as many bytes as the function's *_bytes() says for as many elements or more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/launch.cuh"

namespace hlite::gpu {

struct Temporary {
  void* data = nullptr;
  size_t bytes = 0;
};

// n < 2^32 pairs in buffers [0]; buffers [1] are scratch.
template <typename Value>
struct SortPairs {
  uint32_t* keys[2];
  Value* values[2];
  uint32_t n;
};

// Sorts by the lowest `bits` (1 to 32) of the keys, ascending and stable. Returns which of the two
// buffers holds the result; that depends on n and `bits` only. Value: uint32_t or uint8_t.
template <typename Value>
int sort_pairs(cudaStream_t stream, const Temporary& temporary, const SortPairs<Value>& pairs,
               int bits);
template <typename Value>
size_t sort_pairs_bytes(uint32_t n, int bits);

// sums[i] = values[0] + ... + values[i-1], i in [0, n).
void exclusive_sums(cudaStream_t stream, const Temporary& temporary, const uint8_t* values,
                    uint32_t* sums, uint32_t n);
size_t exclusive_sums_bytes(uint32_t n);

}  // namespace hlite::gpu
