// Launchers of the kernels in tile_kernels.cu.
#pragma once

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::test {

inline constexpr int kTileStride = 24;  // elements from row to row in tile_product's shared memory

// d [16,16] = 0.5 + 2 a b. a and b [16,16] are row-major; a_by_columns and b_by_columns: they pass
// through shared memory transposed, and are loaded as what they are then. d_by_columns: d is
// column-major. One warp a block, all with the same work.
template <typename T>
void tile_product(const LaunchShape& shape, const T* a, const T* b, bool a_by_columns,
                  bool b_by_columns, bool d_by_columns, float* d);

void tile_at(const LaunchShape& shape, int element, int stride);
void tile_store_at(const LaunchShape& shape, int element, int stride);
void tiles_of_two_places(const LaunchShape& shape);
void tile_without_a_lane(const LaunchShape& shape);

// out[t] = in[t] by asynchronous copies, the last of two groups waited for or not.
void copy_later(const LaunchShape& shape, const int* in, int* out, bool wait);
void copy_unaligned(const LaunchShape& shape, const int* in);
void copy_forgotten(const LaunchShape& shape, const int* in);

}  // namespace hlite::test
