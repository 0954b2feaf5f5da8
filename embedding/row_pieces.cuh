// Kernels read and write rows in pieces (packs of kPiece elements), one for each of the lanes that
// share the row. Four floats, or eight elements of 16 bits, are one access of 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::embedding::gpu {

#if defined(__CUDA_ARCH__)
// A type that moves a piece in one instruction, for the loads and stores with a hint.
template <int kBytes>
using PieceBits = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<kBytes == 8, uint2,
                       std::conditional_t<kBytes == 4, unsigned, unsigned short>>>;
#endif

// Loads and stores data that pass once: they leave the caches to rows that others look up too.
template <int kPiece, typename T>
__device__ inline Pack<T, kPiece> load_passing(const T* from) {
#if defined(__CUDA_ARCH__)
  using Bits = PieceBits<sizeof(T) * kPiece>;
  union {
    Bits bits;
    Pack<T, kPiece> piece;
  } both = {__ldcs(reinterpret_cast<const Bits*>(from))};
  return both.piece;
#else
  return load_pack<kPiece>(from);
#endif
}
template <int kPiece, typename T>
__device__ inline void store_passing(T* to, const Pack<T, kPiece>& piece) {
#if defined(__CUDA_ARCH__)
  using Bits = PieceBits<sizeof(T) * kPiece>;
  __stcs(reinterpret_cast<Bits*>(to), *reinterpret_cast<const Bits*>(&piece));
#else
  store_pack(to, piece);
#endif
}

// Stores a piece to global memory in one access, of which nvcc now and then makes one a float.
template <int kPiece, typename T>
__device__ inline void store_whole(T* to, const Pack<T, kPiece>& piece) {
#if defined(__CUDA_ARCH__)
  using Bits = PieceBits<sizeof(T) * kPiece>;
  __stwb(reinterpret_cast<Bits*>(to), *reinterpret_cast<const Bits*>(&piece));
#else
  store_pack(to, piece);
#endif
}

// Asks for the line of an address, of global memory, into the L2 cache.
__device__ inline void prefetch_l2([[maybe_unused]] const void* at) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

template <typename T, int kPiece>
__device__ inline Pack<float, kPiece> floats_of(const Pack<T, kPiece>& from) {
  Pack<float, kPiece> to;
#pragma unroll
  for (int j = 0; j < kPiece; ++j) to.value[j] = to_float(from.value[j]);
  return to;
}
template <typename T, int kPiece>
__device__ inline Pack<T, kPiece> rounded(const Pack<float, kPiece>& from) {
  Pack<T, kPiece> to;
#pragma unroll
  for (int j = 0; j < kPiece; ++j) to.value[j] = from_float<T>(from.value[j]);
  return to;
}

// As T: rounded to it, or as they are.
template <typename T, typename From, int kPiece>
__device__ inline Pack<T, kPiece> converted(const Pack<From, kPiece>& from) {
  if constexpr (std::is_same_v<T, From>)
    return from;
  else
    return rounded<T>(floats_of(from));
}

// Elements of a piece for rows of `width`, at all the given addresses.
template <typename... T>
inline int piece_for(int64_t width, const T*... rows) {
  const bool aligned = ((reinterpret_cast<uintptr_t>(rows) % (4 * sizeof(T)) == 0) && ...);
  return width % 4 == 0 && aligned ? 4 : 1;
}
// Lanes that share a row: a power of two, at most a warp. Wider rows take several turns.
inline int lanes_for(int64_t width, int piece) {
  int lanes = 1;
  while (lanes < kWarp && lanes * piece < width) lanes *= 2;
  return lanes;
}
// Calls body.template operator()<piece>() with the piece as a compile-time constant.
template <typename Body>
void with_piece(int piece, Body&& body) {
  if (piece == 4)
    body.template operator()<4>();
  else
    body.template operator()<1>();
}

}  // namespace hlite::embedding::gpu
