// The kernel of column blocks: reads every block once and writes every output once, whatever the
// number of blocks.
//
// A thread owns a pack of neighbouring columns in a few rows and adds up the blocks that hold it; a
// warp's packs lie side by side in the output, and so do their sources within a block. Packs need
// every width and first column to be a multiple of their size; 13 dense features next to vectors of
// 128 are copied element by element, and it takes the rows to have enough loads in flight.
#include "hugectr_lite/ops/concat.h"

#include <algorithm>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int64_t kMaxSources = 64;

template <typename T>
struct Source {
  const T* data;   // of the first row, at the block's first column
  int64_t stride;  // elements from one row to the next
  int64_t begin, end;
};

template <typename T>
struct Sources {
  Source<T> list[kMaxSources];
  int count;
};

// Rows that a thread takes at a time: its sums stay in registers.
template <int kCount>
constexpr int kRowsAtATime = kCount > 4 ? 2 : 4;

// add: to what `out` holds.
template <int kCount, typename T>
__global__ void __launch_bounds__(kPackThreads)
    concat_kernel(const __grid_constant__ Sources<T> sources, Matrix<T> out, bool add) {
  constexpr int kRows = kRowsAtATime<kCount>;
  const int64_t rows = out.dim(0), width = out.dim(1);
  const int64_t row_step = static_cast<int64_t>(gridDim.y) * blockDim.y;
  const int64_t column_step = grid_threads() * kCount;
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
       row += row_step * kRows) {
    for (int64_t column = global_thread() * kCount; column < width; column += column_step) {
      float sum[kRows][kCount] = {};
      bool empty = true;  // a first term is copied: 0 + x would lose the sign of -0
      const auto take = [&](const T* from, int64_t stride) {
        Pack<T, kCount> packs[kRows] = {};
        for (int r = 0; r < kRows; ++r)
          if (row + r * row_step < rows)
            packs[r] = load_pack<kCount>(from + (row + r * row_step) * stride);
        for (int r = 0; r < kRows; ++r)
          for (int i = 0; i < kCount; ++i) {
            const float value = to_float(packs[r].value[i]);
            sum[r][i] = empty ? value : sum[r][i] + value;
          }
        empty = false;
      };
      if (add) take(out.data() + column, width);
      for (int s = 0; s < sources.count; ++s) {
        const Source<T>& source = sources.list[s];
        if (column >= source.begin && column < source.end)
          take(source.data + (column - source.begin), source.stride);
      }
      for (int r = 0; r < kRows; ++r) {
        Pack<T, kCount> pack;
        for (int i = 0; i < kCount; ++i) pack.value[i] = from_float<T>(sum[r][i]);
        if (row + r * row_step < rows) store_pack(out.row(row + r * row_step) + column, pack);
      }
    }
  }
}

template <int kCount, typename T>
bool in_packs(const Source<T>& source) {
  return starts_pack<kCount>(source.data) && source.stride % kCount == 0 &&
         source.begin % kCount == 0 && source.end % kCount == 0;
}

// Threads of a block along the columns: enough for a row, the rest take other rows.
unsigned threads_along(int64_t packs) {
  unsigned threads = 1;
  while (threads < packs && threads < kPackThreads) threads *= 2;
  return threads;
}

}  // namespace

template <typename T>
void concat_columns(cudaStream_t stream, std::span<const ColumnBlock<T>> blocks, Matrix<T> out) {
  size_t done = 0;
  do {
    const bool add = done > 0;
    Sources<T> sources{};
    for (; done < blocks.size() && sources.count < kMaxSources; ++done) {
      const ColumnBlock<T>& b = blocks[done];
      sources.list[sources.count++] = {b.from.data() + b.from_begin, b.from.dim(1), b.to_begin,
                                       b.to_begin + b.columns};
    }
    constexpr int kCount = kPackCount<T>;
    const bool aligned =
        starts_pack<kCount>(out.data()) && out.dim(1) % kCount == 0 &&
        std::all_of(sources.list, sources.list + sources.count, in_packs<kCount, T>);
    with_pack_count<kCount>(aligned, [&](auto c) {
      const int64_t packs = out.dim(1) / c;
      const dim3 block(threads_along(packs), kPackThreads / threads_along(packs));
      launch({.name = "concat_columns",
              .grid = dim3(grid_for(packs, block.x).x,
                           grid_for(out.dim(0), block.y * kRowsAtATime<c()>, kMaxGridYZ).x),
              .block = block,
              .stream = stream},
             concat_kernel<c(), T>, sources, out, add);
    });
  } while (done < blocks.size());
}

HLITE_KERNELS(concat) {
  for_each_float([&]<typename T>() { list.add<concat_columns<T>>(kernels::concat_columns<T>); });
}

}  // namespace hlite::ops::gpu
