// Column sums of a matrix [rows, columns] whose elements are made on the way, in two passes.
//
// A source makes the elements: load() fetches what kWidth neighbours of a row need, finish() turns
// that into numbers, stores them where they are wanted, and adds them up. The split keeps the loads
// of kBatch rows in flight at once, although finish() may store to the memory that they read.
//
// First pass: a block takes a range of rows and 32 vectors of columns or fewer; each of its threads
// sums every so-manieth row, then they are combined in a tree: one partial row a block. Second
// pass: the partial rows are summed alike. A thread moves 16 bytes at a time where all rows are
// aligned to them. How rows are cut depends on shape and alignment only, and so do the sums' bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

// Returns true if rows of this width, at these addresses, can be moved 16 bytes at a time.
template <typename T, typename... Pointers>
bool is_packable(int64_t columns, const Pointers*... pointers) {
  const uintptr_t addresses = (uintptr_t{0} | ... | reinterpret_cast<uintptr_t>(pointers));
  return columns % kPackCount<T> == 0 && addresses % 16 == 0;
}

// Which elements of a gradient pass a ReLU: by the bits of its mask, else by y > 0, else all.
template <typename T>
struct ReluGate {
  const T* y = nullptr;  // [rows, columns]
  const uint8_t* mask = nullptr;
  int64_t columns = 0, mask_stride = 0;

  HLITE_HD bool is_open() const { return !y && !mask; }
  // Bit i: whether column + i passes. W is 1, or 4 or 8 and divides column.
  template <int W>
  __device__ unsigned passes(int64_t row, int64_t column) const {
    if (mask) return static_cast<unsigned>(mask[row * mask_stride + column / 8]) >> (column % 8);
    if (!y) return ~0u;
    const Pack<T, W> values = load_pack<W>(y + row * columns + column);
    unsigned bits = 0;
    for (int i = 0; i < W; ++i) bits |= (to_float(values.value[i]) > 0 ? 1u : 0u) << i;
    return bits;
  }
};

namespace column_sums {

constexpr int kThreads = 256;
constexpr int kBatch = 4;
// Blocks of the first pass on a multiprocessor, and in all: a wave on an H100 or H200.
constexpr int kBlocksAtOnce = 3;
constexpr int64_t kBlocks = 384;
constexpr int kTile = 32;  // columns and rows of a block of the second pass

template <int W, typename Source>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    first_pass(Source source, int64_t rows, int64_t columns, int64_t rows_per_block, float* sums) {
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  const int64_t begin = blockIdx.y * rows_per_block;
  const int64_t end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
  const int64_t step = blockDim.y;
  float own[W] = {};
  if (column < columns) {
    int64_t row = begin + threadIdx.y;
    for (; row + (kBatch - 1) * step < end; row += kBatch * step) {
      typename Source::template Item<W> items[kBatch];
      for (int i = 0; i < kBatch; ++i) items[i] = source.template load<W>(row + i * step, column);
      for (int i = 0; i < kBatch; ++i) source.finish(items[i], row + i * step, column, own);
    }
    for (; row < end; row += step) {
      auto item = source.template load<W>(row, column);
      source.finish(item, row, column, own);
    }
  }
  if (!sums) return;

  // tile[i][y][x]: neighbouring threads meet different banks.
  float* const tile = dynamic_shared<float>();
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (int i = 0; i < W; ++i) tile[i * kThreads + at] = own[i];
  __syncthreads();
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half)
      for (int i = 0; i < W; ++i)
        tile[i * kThreads + at] += tile[i * kThreads + at + half * blockDim.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < columns)
    for (int i = 0; i < W; ++i)
      sums[blockIdx.y * columns + column + i] = tile[i * kThreads + threadIdx.x];
}

// sums[columns] = column sums of partial [rows, columns].
static __global__ void __launch_bounds__(kTile* kTile)
    second_pass(const float* partial, int64_t rows, int64_t columns, float* sums) {
  __shared__ float tile[kTile][kTile];
  const int64_t column = int64_t{blockIdx.x} * kTile + threadIdx.x;
  float own = 0;
  if (column < columns)
    for (int64_t row = threadIdx.y; row < rows; row += kTile)
      own += partial[row * columns + column];
  tile[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kTile / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < columns) sums[column] = tile[0][threadIdx.x];
}

// kWidth columns a thread; rows >= 1.
template <int kWidth, typename Source>
void run(const char* name, cudaStream_t stream, const Source& source, int64_t rows, int64_t columns,
         float* sums, std::span<float> scratch) {
  unsigned across = 1;
  while (across < 32 && across * kWidth < columns) across *= 2;
  const dim3 block(across, kThreads / across);
  const int64_t column_blocks = (columns + across * kWidth - 1) / (across * kWidth);
  const int64_t fill = std::max<int64_t>(1, kBlocks / column_blocks);
  const int64_t capacity = static_cast<int64_t>(scratch.size()) / columns;
  const int64_t most = sums ? std::max<int64_t>(1, std::min(fill, capacity)) : fill;
  const int64_t batch = block.y * kBatch;  // rows that a block takes at once
  const int64_t rows_per_block = ((rows + most - 1) / most + batch - 1) / batch * batch;
  const int64_t row_blocks = (rows + rows_per_block - 1) / rows_per_block;

  float* const partial = sums && row_blocks > 1 ? scratch.data() : sums;
  launch({.name = name,
          .grid = dim3(static_cast<unsigned>(column_blocks), static_cast<unsigned>(row_blocks)),
          .block = block,
          .shared_bytes = sums ? kThreads * kWidth * sizeof(float) : 0,
          .stream = stream},
         first_pass<kWidth, Source>, source, rows, columns, rows_per_block, partial);
  if (partial == sums) return;
  launch({.name = name,
          .grid = grid_for(columns, kTile),
          .block = dim3(kTile, kTile),
          .stream = stream},
         second_pass, static_cast<const float*>(partial), row_blocks, columns, sums);
}

}  // namespace column_sums

// sums[columns] = column sums of the source's [rows, columns], overwritten; null: the elements are
// made and stored, not summed. T: the type whose packs the source moves, `packable` whether it may.
template <typename T, typename Source>
void sum_columns(const char* name, cudaStream_t stream, const Source& source, int64_t rows,
                 int64_t columns, bool packable, float* sums, std::span<float> scratch) {
  if (columns == 0) return;
  if (rows == 0) {
    if (sums)
      HLITE_CUDA(cudaMemsetAsync(sums, 0, static_cast<size_t>(columns) * sizeof(float), stream));
    return;
  }
  if (packable)
    column_sums::run<kPackCount<T>>(name, stream, source, rows, columns, sums, scratch);
  else
    column_sums::run<1>(name, stream, source, rows, columns, sums, scratch);
}

}  // namespace hlite::ops::gpu
