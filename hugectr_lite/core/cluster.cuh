// Clusters: blocks of a kernel that run at the same time and reach each other's shared memory, from
// compute capability 9.0 on. LaunchShape::cluster starts them, and runs_clusters() (launch.cuh) says
// where.
//
// A block may touch another's shared memory after the first cluster_sync(), before which it may not
// have begun, and before the last, after which it may have ended.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/launch.cuh"

namespace hlite {

// False where a kernel is compiled for devices without clusters: it must not use them there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kCodeHasClusters = false;
#else
inline constexpr bool kCodeHasClusters = true;
#endif

#if defined(__CUDACC__)

// The block's number in its cluster.
__device__ inline unsigned cluster_rank() {
  unsigned rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of the cluster meet; what they wrote before, to any block's memory, all see then.
__device__ inline void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n\t"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

namespace detail {
// The address, in the cluster's shared memory, of what block `rank` has where this one has `mine`.
__device__ inline uint32_t in_cluster(const void* mine, unsigned rank) {
  uint32_t there = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))), "r"(rank));
  return there;
}
}  // namespace detail

// Writes and reads what block `rank` has in dynamic shared memory where this one has `mine`.
template <typename T>
__device__ inline void cluster_store(T* mine, unsigned rank, std::type_identity_t<T> value) {
  static_assert(std::is_same_v<T, uint32_t> || std::is_same_v<T, uint16_t>);
  const uint32_t there = detail::in_cluster(mine, rank);
  if constexpr (sizeof(T) == 4)
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(value));
  else
    asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(there), "h"(value));
}
__device__ inline uint32_t cluster_load(const uint32_t* mine, unsigned rank) {
  uint32_t value = 0;
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(value)
               : "r"(detail::in_cluster(mine, rank)));
  return value;
}

#else  // emulated

inline unsigned cluster_rank() { return emulation::here.cluster_rank; }
inline void cluster_sync(std::source_location site = std::source_location::current()) {
  emulation::cluster_barrier(site);
}
template <typename T>
void cluster_store(T* mine, unsigned rank, std::type_identity_t<T> value) {
  *reinterpret_cast<T*>(emulation::in_block(mine, rank)) = value;
}
inline uint32_t cluster_load(const uint32_t* mine, unsigned rank) {
  return *reinterpret_cast<const uint32_t*>(emulation::in_block(mine, rank));
}

#endif

}  // namespace hlite
