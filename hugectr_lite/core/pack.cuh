// Packs: neighbouring elements that a thread reads or writes at once, up to the 16 bytes that a GPU
// moves in one access. The packs of a warp lie side by side, so its accesses coalesce.
//
//   with_pack_count<kPackCount<T>>(aligned, [&](auto count) {
//     launch({.grid = pack_grid(n, count), .block = dim3(kPackThreads)}, kernel<count(), T>, ...);
//   });
//   ... in the kernel: for_each_pack<kCount>(n, [&]<int k>(int64_t at) {
//     Pack<T, k> p = load_pack<k>(x + at); ...; store_pack(y + at, p); });
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/launch.cuh"

namespace hlite {

template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T value[kCount];
};

// Elements in a pack where arrays of all Ts are accessed together: 16 bytes of the widest.
template <typename... Ts>
inline constexpr int kPackCount = static_cast<int>(16 / std::max({sizeof(Ts)...}));

// Threads of a block that works on packs; eight such blocks fill a multiprocessor, whose 32 KiB of
// loads in flight are more than its share of an H200's bandwidth times latency (22 KiB).
inline constexpr int kPackThreads = 256;

template <int kCount, typename T>
__device__ inline Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <typename T, int kCount>
__device__ inline void store_pack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Shares [0, n) among the grid's threads: body.operator()<kCount>(first) for every whole pack, then
// body.operator()<1>(i) for what is left.
template <int kCount, typename Body>
__device__ inline void for_each_pack(int64_t n, Body&& body) {
  const int64_t packs = n / kCount, threads = grid_threads();
  for (int64_t p = global_thread(); p < packs; p += threads)
    body.template operator()<kCount>(p * kCount);
  if constexpr (kCount > 1)
    for (int64_t i = packs * kCount + global_thread(); i < n; i += threads)
      body.template operator()<1>(i);
}

// Blocks for for_each_pack() over n elements; at least one for n > 0.
inline dim3 pack_grid(int64_t n, int count, int64_t limit = int64_t{1} << 20) {
  return grid_for(n, int64_t{count} * kPackThreads, limit);
}

// Returns true if packs of kCount elements may start at `data`. Null may: it is not accessed.
template <int kCount, typename T>
bool starts_pack(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % (kCount * sizeof(T)) == 0;
}

// Calls start(std::integral_constant<int, c>) with c = kCount, or with 1 where not all is aligned.
template <int kCount, typename Start>
void with_pack_count(bool aligned, Start&& start) {
  if (aligned)
    start(std::integral_constant<int, kCount>());
  else
    start(std::integral_constant<int, 1>());
}

}  // namespace hlite
