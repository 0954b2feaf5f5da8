// Launchers of the kernels in tile_kernels.cu.
#pragma once

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::test {

// All of one warp.

inline constexpr int kRowElements = 40;  // from row to row in load()'s shared memory: 80 bytes

// from [32,8] goes to shared memory row by row; lane l names row rows[l] of it and gets
// to[4 l ... 4 l + 3].
void load(const LaunchShape& shape, const uint16_t* from, bool transposed, const int* rows,
          uint32_t* to);

// A lane's registers of the factors of a product.
struct Factors {
  uint32_t a[4], b[2];
};
// sums[4 l ... 4 l + 3] are lane l's; the product is added twice.
template <typename T>
void multiply_twice(const LaunchShape& shape, const Factors* factors, float* sums);

// The first row at so many bytes of shared memory, by all lanes; a row that is not there.
void load_at(const LaunchShape& shape, int byte);
void load_elsewhere(const LaunchShape& shape);
void multiply_without_a_lane(const LaunchShape& shape);

// out[t] = in[t] by asynchronous copies, the last of two groups waited for or not.
void copy_later(const LaunchShape& shape, const int* in, int* out, bool wait);
void copy_unaligned(const LaunchShape& shape, const int* in);
void copy_forgotten(const LaunchShape& shape, const int* in);

}  // namespace hlite::test
