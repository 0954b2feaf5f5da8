// Column sums of a matrix [rows, columns] whose elements are made on the way, by one kernel.
//
// A source makes the elements: load() fetches what kWidth neighbours of a row need, finish() turns
// that into numbers, stores them where they are wanted, and adds them up. The split keeps the loads
// of kBatch rows in flight at once, although finish() may store to the memory that they read.
//
// A block takes a range of rows and 32 vectors of columns or fewer; each of its threads sums every
// so-manieth row, then they are combined in a tree: one partial row a block. The last block that is
// done with its columns sums their partial rows alike. A thread moves 16 bytes at a time where all
// rows are aligned to them. How rows are cut depends on shape and alignment only, and so do the
// sums' bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/last_block.cuh"

namespace hlite::ops::gpu {

// Memory of the device that sums are made in, of one stream.
struct SumScratch {
  std::span<float> partial;
  unsigned* counters = nullptr;  // kBlockCounters
};

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
constexpr unsigned kSlots = 32;  // sums that partial rows are added to, in turns

// own of the threads (x, 0) <- sums over the first `height` threads (x, y), in a tree; height is a
// power of two. By all threads of a block. tile: W floats for each thread.
template <int W>
__device__ inline void add_in_tree(float (&own)[W], unsigned height, float* tile) {
  // tile[i][y][x]: neighbouring threads meet different banks.
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (int i = 0; i < W; ++i) tile[i * kThreads + at] = own[i];
  __syncthreads();
  for (unsigned half = height / 2; half > 0; half /= 2) {
    if (threadIdx.y < half)
      for (int i = 0; i < W; ++i)
        tile[i * kThreads + at] += tile[i * kThreads + at + half * blockDim.x];
    __syncthreads();
  }
  if (threadIdx.y == 0)
    for (int i = 0; i < W; ++i) own[i] = tile[i * kThreads + at];
}

// The thread's part of the sums of W columns of `partial` [rows, columns] from `at` on: slots
// threadIdx.y + s kSlots / kOwn, added as a tree over all kSlots begins.
template <int kOwn, int W>
__device__ inline void add_slots(const float* at, unsigned rows, int64_t columns, float (&own)[W]) {
  constexpr unsigned kApart = kSlots / kOwn;
  float slots[kOwn][W] = {};
  for (unsigned row = threadIdx.y; row < rows; row += kSlots)
    for (unsigned s = 0; s < kOwn; ++s)
      if (row + s * kApart < rows)
        for (int i = 0; i < W; ++i) slots[s][i] += at[(row + s * kApart) * columns + i];
  for (int half = kOwn / 2; half > 0; half /= 2)
    for (int s = 0; s < half; ++s)
      for (int i = 0; i < W; ++i) slots[s][i] += slots[s + half][i];
  for (int i = 0; i < W; ++i) own[i] = slots[0][i];
}

// sums[columns] = column sums of partial [rows, columns], of the columns from `column` on that this
// block has: by all its threads.
template <int W>
__device__ inline void add_partial_rows(const float* partial, unsigned rows, int64_t column,
                                        int64_t columns, float* tile, float* sums) {
  constexpr unsigned kOwn = 4;
  const unsigned height = blockDim.y < kSlots ? kSlots / kOwn : kSlots;
  float own[W] = {};
  if (column < columns && threadIdx.y < height) {
    if (height == kSlots)
      add_slots<1>(partial + column, rows, columns, own);
    else
      add_slots<kOwn>(partial + column, rows, columns, own);
  }
  add_in_tree(own, height, tile);
  if (threadIdx.y == 0 && column < columns)
    for (int i = 0; i < W; ++i) sums[column + i] = own[i];
}

// partial [gridDim.y, columns] and a counter for each blockIdx.x: not used by a grid of one row.
template <int W, typename Source>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    column_sums_kernel(Source source, int64_t rows, int64_t columns, int64_t rows_per_block,
                       float* partial, unsigned* counters, float* sums) {
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

  float* const tile = dynamic_shared<float>();
  add_in_tree(own, blockDim.y, tile);
  float* const to = gridDim.y > 1 ? partial + blockIdx.y * columns : sums;
  if (threadIdx.y == 0 && column < columns)
    for (int i = 0; i < W; ++i) to[column + i] = own[i];
  if (gridDim.y > 1 && is_last_block(counters + blockIdx.x, gridDim.y))
    add_partial_rows<W>(partial, gridDim.y, column, columns, tile, sums);
}

// Rows that a block of so many threads down takes, for `most` blocks or fewer.
inline int64_t rows_per_block(int64_t rows, int64_t most, int64_t height) {
  const int64_t batch = height * kBatch;  // rows that a block takes at once
  return ((rows + most - 1) / most + batch - 1) / batch * batch;
}

// kWidth columns a thread; rows >= 1.
template <int kWidth, typename Source>
void run(const char* name, cudaStream_t stream, const Source& source, int64_t rows, int64_t columns,
         float* sums, const SumScratch& scratch) {
  unsigned across = 1;
  while (across < 32 && across * kWidth < columns) across *= 2;
  const dim3 block(across, kThreads / across);
  const int64_t column_blocks = (columns + across * kWidth - 1) / (across * kWidth);
  const int64_t fill = std::max<int64_t>(1, kBlocks / column_blocks);
  const int64_t capacity = std::ssize(scratch.partial) / columns;
  const int64_t most = sums ? std::max<int64_t>(1, std::min(fill, capacity)) : fill;
  const int64_t block_rows = rows_per_block(rows, most, block.y);
  const int64_t row_blocks = (rows + block_rows - 1) / block_rows;

  static_assert(kBlocks / 2 <= kBlockCounters, "a counter where there are two rows of blocks");
  launch({.name = name,
          .grid = dim3(static_cast<unsigned>(column_blocks), static_cast<unsigned>(row_blocks)),
          .block = block,
          .shared_bytes = sums ? kThreads * kWidth * sizeof(float) : 0,
          .stream = stream},
         column_sums_kernel<kWidth, Source>, source, rows, columns, block_rows,
         scratch.partial.data(), scratch.counters, sums);
}

}  // namespace column_sums

// sums[columns] = column sums of the source's [rows, columns], overwritten; null: the elements are
// made and stored, not summed. T: the type whose packs the source moves, `packable` whether it may.
template <typename T, typename Source>
void sum_columns(const char* name, cudaStream_t stream, const Source& source, int64_t rows,
                 int64_t columns, bool packable, float* sums, const SumScratch& scratch) {
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
