// The L2 cache of a GPU: how much it holds, and packs that leave alone what is there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "hugectr_lite/core/cuda_raii.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite {

// Of the current device; asks the host's driver only.
inline int64_t l2_bytes() {
  int device = 0, bytes = 0;
  HLITE_CUDA(cudaGetDevice(&device));
  HLITE_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device));
  return bytes;
}

// load_pack() and store_pack() of memory that no kernel needs soon: the L2 cache evicts it before
// all else. (Emulated devices have none.)
template <int kCount, typename T>
__device__ inline Pack<T, kCount> load_passing_pack(const T* from) {
  Pack<T, kCount> pack;
#if defined(__CUDACC__)
  if constexpr (sizeof pack == sizeof(uint4)) {
    const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
    memcpy(&pack, &words, sizeof pack);
  } else
#endif
    pack = load_pack<kCount>(from);
  return pack;
}
template <typename T, int kCount>
__device__ inline void store_passing_pack(T* to, const Pack<T, kCount>& pack) {
#if defined(__CUDACC__)
  if constexpr (sizeof pack == sizeof(uint4)) {
    uint4 words;
    memcpy(&words, &pack, sizeof pack);
    __stcs(reinterpret_cast<uint4*>(to), words);
  } else
#endif
    store_pack(to, pack);
}

}  // namespace hlite
