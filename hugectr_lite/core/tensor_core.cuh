// Products of small matrices by a warp on tensor cores, as PTX has them (`ldmatrix` and
// `mma.m16n8k16`), with bf16 or fp16 factors and float sums. Which lane holds which element is part
// of the interface: so a kernel can use registers that it has loaded as both factors, and take sums
// from where they are, without a way through shared memory.
//
// A register holds two neighbouring elements, the first in its low half. Lane l = 4 g + q has
//
//   a matrix of 8 x 8   row g, columns 2q and 2q + 1; of its transpose, loaded as such: column g,
//                       rows 2q and 2q + 1
//   a factor A, 16 x 16 four of these: top left, bottom left, top right, bottom right
//   a factor B, 16 x 8  two transposed ones: top, bottom
//   sums, 16 x 8        [0], [1]: row g, columns 2q, 2q + 1; [2], [3]: the same of row g + 8
//
// So A's registers [0], [2] are the B that makes a product with the transpose of A's upper half.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "hugectr_lite/core/half.h"

namespace hlite {

// Two elements in a register, rounded to T: bf16 or fp16.
template <typename T>
HLITE_HD inline uint32_t pack_pair(float first, float second) {
  return from_float<T>(first).bits | static_cast<uint32_t>(from_float<T>(second).bits) << 16;
}

#if defined(__CUDACC__)
// (The emulated runtime brings its own of the following.)

// Four matrices of 8 x 8 from shared memory. Lane 8 m + r gives the address of row r of matrix m: a
// multiple of 16 bytes. All 32 lanes take part. Eight rows that lie in different sixteenths of 128
// bytes, or are the same, come at once.
__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void load_transposed_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// sums += a [b_top; b_bottom]. All 32 lanes take part.
template <typename T>
__device__ void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b_top,
                             uint32_t b_bottom);
#define HLITE_MULTIPLY_ADD(T, type)                                                              \
  template <>                                                                                    \
  __device__ inline void multiply_add<T>(float(&sums)[4], const uint32_t(&a)[4], uint32_t b_top, \
                                         uint32_t b_bottom) {                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                          \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                    \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_top), "r"(b_bottom));       \
  }
HLITE_MULTIPLY_ADD(bf16, "bf16")
HLITE_MULTIPLY_ADD(fp16, "f16")
#undef HLITE_MULTIPLY_ADD
#endif

}  // namespace hlite
