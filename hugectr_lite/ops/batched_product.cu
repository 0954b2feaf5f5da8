// Kernels of batched_product: tiles of a result by sums over tiles of both factors in shared
// memory, which are read along the rows that lie in memory, whichever is transposed. A block has
// tiles of several samples where a tile is low: one row for a weighted sum.
#include "hugectr_lite/ops/batched_product.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kTileSide = 32;         // columns of a tile, and terms of a sum that are staged
constexpr int kSide = kTileSide + 1;  // without conflicts of banks
constexpr int kRowsOfThread = 4;
constexpr int kWarpsOfTiles = 8;  // of a block: warps of a tile times tiles

__host__ __device__ inline int64_t tiles_of(int64_t n, int64_t side) {
  return (n + side - 1) / side;
}

// tile[i][q] = f(first + i, p + q), or 0 beyond `lines` x `terms`, where f(i, q) is
// from[i * terms + q], or if `turned` from[q * lines + i]. By the warps of threadIdx.y.
template <typename T>
__device__ void load_tile(const T* from, bool turned, int64_t first, int64_t lines, int rows,
                          int64_t p, int64_t terms, float* tile) {
  const int x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < (turned ? kTileSide : rows);
       y += static_cast<int>(blockDim.y)) {
    const int i = turned ? x : y, q = turned ? y : x;
    if (i >= rows) continue;
    const int64_t line = first + i, term = p + q;
    tile[i * kSide + q] = line < lines && term < terms
                              ? to_float(from[turned ? term * lines + line : line * terms + term])
                              : 0.0f;
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarp* kWarpsOfTiles)
    product_kernel(bool ta, bool tb, View<const T, 3> a, View<const T, 3> b, View<T, 3> c) {
  const int warps = static_cast<int>(blockDim.y), rows = warps * kRowsOfThread;
  float* const a_tile = dynamic_shared<float>() + threadIdx.z * (rows + kTileSide) * kSide;
  float* const b_tile = a_tile + rows * kSide;
  const int64_t m = c.dim(1), n = c.dim(2), k = ta ? a.dim(1) : a.dim(2);
  const int64_t row_tiles = tiles_of(m, rows), tiles = row_tiles * tiles_of(n, kTileSide);
  const int64_t work = tiles_of(c.dim(0), blockDim.z) * tiles;
  for (int64_t w = blockIdx.x; w < work; w += gridDim.x) {
    const int64_t s = w / tiles * blockDim.z + threadIdx.z;
    const int64_t first_row = w % row_tiles * rows, column = w % tiles / row_tiles * kTileSide;
    const bool here = s < c.dim(0);
    float sums[kRowsOfThread] = {};
    for (int64_t p = 0; p < k; p += kTileSide) {
      if (here) {
        load_tile(a.row(s), ta, first_row, m, rows, p, k, a_tile);
        load_tile(b.row(s), !tb, column, n, kTileSide, p, k, b_tile);
      }
      __syncthreads();
      const int depth = static_cast<int>(k - p < kTileSide ? k - p : kTileSide);
      for (int q = 0; here && q < depth; ++q) {
        const float y = b_tile[threadIdx.x * kSide + q];
#pragma unroll
        for (int r = 0; r < kRowsOfThread; ++r)
          sums[r] += a_tile[(static_cast<int>(threadIdx.y) + r * warps) * kSide + q] * y;
      }
      __syncthreads();
    }
    const int64_t j = column + threadIdx.x;
    for (int r = 0; here && j < n && r < kRowsOfThread; ++r) {
      const int64_t i = first_row + threadIdx.y + r * warps;
      if (i < m) c.row(s)[i * n + j] = from_float<T>(sums[r]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarp* kWarpsOfTiles)
    transpose_kernel(View<const T, 3> x, View<T, 3> y) {
  __shared__ T tile[kTileSide][kSide];
  const int64_t m = x.dim(1), n = x.dim(2);
  const int64_t row_tiles = tiles_of(m, kTileSide), tiles = row_tiles * tiles_of(n, kTileSide);
  for (int64_t w = blockIdx.x; w < x.dim(0) * tiles; w += gridDim.x) {
    const T* const from = x.row(w / tiles);
    T* const to = y.row(w / tiles);
    const int64_t row = w % row_tiles * kTileSide, column = w % tiles / row_tiles * kTileSide;
    for (unsigned i = threadIdx.y; i < kTileSide; i += kWarpsOfTiles)
      if (row + i < m && column + threadIdx.x < n)
        tile[i][threadIdx.x] = from[(row + i) * n + column + threadIdx.x];
    __syncthreads();
    for (unsigned i = threadIdx.y; i < kTileSide; i += kWarpsOfTiles)
      if (column + i < n && row + threadIdx.x < m)
        to[(column + i) * m + row + threadIdx.x] = tile[threadIdx.x][i];
    __syncthreads();
  }
}

}  // namespace

template <typename T>
void batched_product(cudaStream_t stream, Transpose ta, Transpose tb, View<const T, 3> a,
                     View<const T, 3> b, View<T, 3> c) {
  int warps = 1;
  while (warps < kWarpsOfTiles && warps * kRowsOfThread < c.dim(1)) warps *= 2;
  const int samples = kWarpsOfTiles / warps, rows = warps * kRowsOfThread;
  const int64_t work =
      tiles_of(c.dim(0), samples) * tiles_of(c.dim(1), rows) * tiles_of(c.dim(2), kTileSide);
  launch({.name = "batched_product",
          .grid = grid_for(work, 1),
          .block = dim3(kTileSide, static_cast<unsigned>(warps), static_cast<unsigned>(samples)),
          .shared_bytes = static_cast<size_t>(samples * (rows + kTileSide) * kSide) * sizeof(float),
          .stream = stream},
         product_kernel<T>, ta == Transpose::kYes, tb == Transpose::kYes, a, b, c);
}

template <typename T>
void batched_transpose(cudaStream_t stream, View<const T, 3> x, View<T, 3> y) {
  const int64_t tiles = tiles_of(x.dim(1), kTileSide) * tiles_of(x.dim(2), kTileSide);
  launch({.name = "batched_transpose",
          .grid = grid_for(x.dim(0) * tiles, 1),
          .block = dim3(kTileSide, kWarpsOfTiles),
          .stream = stream},
         transpose_kernel<T>, x, y);
}

HLITE_KERNELS(batched_product) {
  for_each_float([&]<typename T>() {
    list.add<batched_product<T>>(kernels::batched_product<T>);
    list.add<batched_transpose<T>>(kernels::batched_transpose<T>);
  });
}

}  // namespace hlite::ops::gpu
