// 16 bytes at a time, between global and shared memory, and what a lane of a kernel is.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {

struct [[gnu::may_alias]] alignas(16) Chunk {
  uint32_t words[4];
};
struct [[gnu::may_alias]] Two {
  uint32_t word;
};
struct [[gnu::may_alias]] alignas(8) Four {
  uint32_t words[2];
};
struct [[gnu::may_alias]] alignas(16) Floats {
  float at[4];
};

template <typename T>
constexpr int kChunk = 16 / int{sizeof(T)};  // elements of 16 bytes

inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x % kWarp); }

__device__ inline void copy_chunk_async(void* to, const void* from) {
  __pipeline_memcpy_async(to, from, sizeof(Chunk));
}
// Asks for `bytes` from `from` on to be brought into the L2 cache, by a warp; without waiting.
__device__ inline void prefetch(const void* from, int bytes) {
#if defined(__CUDACC__)
  constexpr int kLine = 128;
  for (int at = lane_index() * kLine; bytes > 0 && at < bytes + kLine - 1; at += kWarp * kLine) {
    const char* const in_line = static_cast<const char*>(from) + (at < bytes ? at : bytes - 1);
    asm volatile("prefetch.L2 [%0];" ::"l"(in_line));
  }
#else
  (void)from;
  (void)bytes;
#endif
}
// Waits until the copies that the lane has started are there; the other lanes' copies are after a
// __syncwarp().
__device__ inline void wait_for_chunks() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

}  // namespace hlite::ops::gpu
