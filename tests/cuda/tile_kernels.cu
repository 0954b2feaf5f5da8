// Kernels for the self test of the emulated tensor cores and asynchronous copies.
#include "tests/cuda/tile_kernels.cuh"

#include <cuda_pipeline_primitives.h>
#include <mma.h>

namespace hlite::test {
namespace {

namespace wmma = nvcuda::wmma;

template <typename T, typename Layout>
using A = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, Layout>;
template <typename T, typename Layout>
using B = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

template <typename T>
__device__ void stage(const T* from, bool transposed, T* to) {
  for (unsigned i = threadIdx.x; i < 256; i += 32)
    to[(transposed ? i % 16 : i / 16) * kTileStride + (transposed ? i / 16 : i % 16)] = from[i];
}

template <typename T, typename LayoutA, typename LayoutB>
__device__ void multiply(const T* a, const T* b, Sums& sums) {
  A<T, LayoutA> left;
  B<T, LayoutB> right;
  wmma::load_matrix_sync(left, a, kTileStride);
  wmma::load_matrix_sync(right, b, kTileStride);
  wmma::fill_fragment(sums, 0.5f);
  wmma::mma_sync(sums, left, right, sums);
  wmma::mma_sync(sums, left, right, sums);
}

template <typename T>
__global__ void tile_product_kernel(const T* a, const T* b, bool a_by_columns, bool b_by_columns,
                                    bool d_by_columns, float* d) {
  using wmma::col_major, wmma::row_major;
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + 16 * kTileStride;
  float* const d_tile = reinterpret_cast<float*>(b_tile + 16 * kTileStride);
  stage(a, a_by_columns, a_tile);
  stage(b, b_by_columns, b_tile);
  __syncwarp();
  Sums sums;
  if (a_by_columns && b_by_columns)
    multiply<T, col_major, col_major>(a_tile, b_tile, sums);
  else if (a_by_columns)
    multiply<T, col_major, row_major>(a_tile, b_tile, sums);
  else if (b_by_columns)
    multiply<T, row_major, col_major>(a_tile, b_tile, sums);
  else
    multiply<T, row_major, row_major>(a_tile, b_tile, sums);
  wmma::store_matrix_sync(d_tile, sums, 20,
                          d_by_columns ? wmma::mem_col_major : wmma::mem_row_major);
  __syncwarp();
  for (unsigned i = threadIdx.x; i < 256; i += 32) d[i] = d_tile[i / 16 * 20 + i % 16];
}

__global__ void copy_later_kernel(const int* in, int* out, bool wait) {
  int* const tile = dynamic_shared<int>();
  const unsigned t = threadIdx.x;
  tile[t] = tile[t + blockDim.x] = -1;
  __pipeline_memcpy_async(tile + t, in + t, sizeof(int));
  __pipeline_commit();
  __pipeline_memcpy_async(tile + t + blockDim.x, in + t, sizeof(int));
  __pipeline_commit();
  __pipeline_wait_prior(wait ? 0 : 1);
  out[t] = tile[t];
  out[t + blockDim.x] = tile[t + blockDim.x];
  __pipeline_wait_prior(0);
}

// ---- Wrong on purpose ----

__global__ void tile_at_kernel(int element, int stride) {
  A<fp16, wmma::row_major> left;
  wmma::load_matrix_sync(left, dynamic_shared<fp16>() + element, static_cast<unsigned>(stride));
}

__global__ void tile_store_at_kernel(int element, int stride) {
  Sums sums;
  wmma::fill_fragment(sums, 1.0f);
  wmma::store_matrix_sync(dynamic_shared<float>() + element, sums, static_cast<unsigned>(stride),
                          wmma::mem_row_major);
}

__global__ void tiles_of_two_places_kernel() {
  const fp16* const tile = dynamic_shared<fp16>();
  A<fp16, wmma::row_major> left;
  B<fp16, wmma::row_major> right;
  Sums sums;
  wmma::load_matrix_sync(left, threadIdx.x < 7 ? tile : tile + 16, kTileStride);
  wmma::load_matrix_sync(right, tile, kTileStride);
  wmma::mma_sync(sums, left, right, sums);
}

__global__ void tile_without_a_lane_kernel() {
  A<fp16, wmma::row_major> left;
  B<fp16, wmma::row_major> right;
  Sums sums;
  if (threadIdx.x != 5) wmma::mma_sync(sums, left, right, sums);
}

__global__ void copy_unaligned_kernel(const int* in) {
  __pipeline_memcpy_async(dynamic_shared<char>() + 2, in, sizeof(int));
}

__global__ void copy_forgotten_kernel(const int* in) {
  __pipeline_memcpy_async(dynamic_shared<int>(), in, sizeof(int));
  __pipeline_commit();
}

}  // namespace

template <typename T>
void tile_product(const LaunchShape& shape, const T* a, const T* b, bool a_by_columns,
                  bool b_by_columns, bool d_by_columns, float* d) {
  launch(shape, tile_product_kernel<T>, a, b, a_by_columns, b_by_columns, d_by_columns, d);
}
template void tile_product<bf16>(const LaunchShape&, const bf16*, const bf16*, bool, bool, bool,
                                 float*);
template void tile_product<fp16>(const LaunchShape&, const fp16*, const fp16*, bool, bool, bool,
                                 float*);

void tile_at(const LaunchShape& shape, int element, int stride) {
  launch(shape, tile_at_kernel, element, stride);
}
void tile_store_at(const LaunchShape& shape, int element, int stride) {
  launch(shape, tile_store_at_kernel, element, stride);
}
void tiles_of_two_places(const LaunchShape& shape) { launch(shape, tiles_of_two_places_kernel); }
void tile_without_a_lane(const LaunchShape& shape) { launch(shape, tile_without_a_lane_kernel); }
void copy_later(const LaunchShape& shape, const int* in, int* out, bool wait) {
  launch(shape, copy_later_kernel, in, out, wait);
}
void copy_unaligned(const LaunchShape& shape, const int* in) {
  launch(shape, copy_unaligned_kernel, in);
}
void copy_forgotten(const LaunchShape& shape, const int* in) {
  launch(shape, copy_forgotten_kernel, in);
}

}  // namespace hlite::test
