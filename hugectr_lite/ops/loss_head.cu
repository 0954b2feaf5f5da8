// The end of a network (loss_head.h) as one kernel.
//
// A warp takes 8 rows of 512 bytes, or 4 or 2 wider ones, of its block's range: their dot products
// with w; then a lane each the loss and its gradient, in double, which all lanes for one row after
// the other would spend 22 us of an H200 on; then dx and the sums of dw. Rows lie in shared memory,
// where a lane finds what it fetched itself, and the next ones are on their way meanwhile. A block
// leaves one partial row, and the last block adds these up, as in column_sums.cuh: with its cut of
// the rows, and its bits where a lane has 16 bytes of a row.
//
// MLPerf's DLRM (batch 65,536; 256 columns of 16 bits): 67 MB, 17 us at 4.0 TB/s.
#include "hugectr_lite/ops/loss_head.h"

#include <algorithm>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/chunks.cuh"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kWarps = column_sums::kThreads / kWarp;

// What the blocks leave for the last one.
struct HeadSums {
  float* dw;       // [blocks, in]
  double* scalar;  // [blocks, 2]: loss, db
  unsigned* counter;
};

// The sums of the warps' values, of which lane 0 of each has one: in all lanes of warp 0.
__device__ inline double sum_of_warps(double value, double* space) {
  if (threadIdx.x == 0) space[threadIdx.y] = value;
  __syncthreads();
  return warp_sum(threadIdx.x < kWarps ? space[threadIdx.x] : 0.0);
}

constexpr int kChunks = 8;  // that a lane fetches at once
constexpr size_t kSharedBytes = size_t{2} * kChunks * column_sums::kThreads * sizeof(Chunk);

// kPacks: of a lane, which has those of columns (32 p + lane) W.
template <int kPacks, typename T>
__global__ void __launch_bounds__(column_sums::kThreads, kPacks == 4 ? 2 : 3)
    loss_head_kernel(LossHead<T> head, LossOptions options, double share, int64_t rows_per_block,
                     HeadSums sums) {
  constexpr int W = kPackCount<T>, kRows = kChunks / kPacks;
  const int64_t rows = head.x.dim(0), columns = head.x.dim(1);
  const int64_t begin = blockIdx.x * rows_per_block;
  const int64_t end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
  const int lane = static_cast<int>(threadIdx.x);
  const double factor =
      share * options.gradient_factor * (options.scale ? static_cast<double>(*options.scale) : 1);
  const auto column_of = [&](int p) { return (int64_t{p} * kWarp + lane) * W; };
  // The lane's chunk of row r of a group, which lies in one of two halves.
  Chunk* const mine = dynamic_shared<Chunk>() + threadIdx.y * kWarp + threadIdx.x;
  const auto chunk_of = [&](int half, int r, int p) {
    return mine + ((half * kRows + r) * kPacks + p) * column_sums::kThreads;
  };
  const auto fetch = [&](int64_t first, int half) {
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPacks; ++p)
        if (first + r * kWarps < end && column_of(p) < columns)
          copy_chunk_async(chunk_of(half, r, p), head.x.row(first + r * kWarps) + column_of(p));
    __pipeline_commit();
  };

  float dw[kPacks][W] = {};
  double loss = 0, db = 0;
  int half = 0;
  fetch(begin + threadIdx.y, half);
  for (int64_t first = begin + threadIdx.y; first < end; first += int64_t{kRows} * kWarps) {
    fetch(first + int64_t{kRows} * kWarps, 1 - half);
    __pipeline_wait_prior(1);

    float dot[kRows] = {};  // of rows past the end, anything
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column_of(p) >= columns) continue;
      const Pack<T, W> w = load_pack<W>(head.w.data() + column_of(p));
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const auto x = load_pack<W>(reinterpret_cast<const T*>(chunk_of(half, r, p)));
#pragma unroll
        for (int i = 0; i < W; ++i) dot[r] += to_float(x.value[i]) * to_float(w.value[i]);
      }
    }
    float z = 0;  // of row first + lane kWarps
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float sum = warp_sum(dot[r]);
      if (lane == r) z = sum;
    }
    float dz = 0;
    if (const int64_t row = first + lane * kWarps; lane < kRows && row < end) {
      if (head.bias) z += *head.bias;
      head.logits.data()[row] = z;
      const LossTerm term =
          loss_term(options, head.labels.data(), head.labels.dim(1), row, static_cast<double>(z));
      loss += term.loss;
      const T rounded = from_float<T>(static_cast<float>(term.gradient * factor));
      head.dlogits.data()[row] = rounded;
      dz = to_float(rounded);
      db += static_cast<double>(dz);
    }
    float gradient[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) gradient[r] = __shfl_sync(0xffffffffu, dz, r);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column_of(p) >= columns) continue;
      const Pack<T, W> w = load_pack<W>(head.w.data() + column_of(p));
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t row = first + r * kWarps;
        if (row >= end) continue;
        const auto x = load_pack<W>(reinterpret_cast<const T*>(chunk_of(half, r, p)));
        Pack<T, W> out;
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const float value = to_float(x.value[i]);
          const bool passes = !head.relu || value > 0;
          out.value[i] = from_float<T>(passes ? gradient[r] * to_float(w.value[i]) : 0.0f);
          dw[p][i] += value * gradient[r];
        }
        store_pack(head.dx.row(row) + column_of(p), out);
      }
    }
    half = 1 - half;
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // what was fetched is read

  __shared__ double loss_space[kWarps], db_space[kWarps];
  float* const tile = dynamic_shared<float>();
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    column_sums::add_in_tree(dw[p], kWarps, tile);
    if (threadIdx.y == 0 && column_of(p) < columns)
#pragma unroll
      for (int i = 0; i < W; ++i) sums.dw[blockIdx.x * columns + column_of(p) + i] = dw[p][i];
    __syncthreads();  // the tile is read
  }
  loss = sum_of_warps(warp_sum(loss), loss_space);
  db = sum_of_warps(warp_sum(db), db_space);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    sums.scalar[2 * blockIdx.x] = loss;
    sums.scalar[2 * blockIdx.x + 1] = db;
  }
  if (!is_last_block(sums.counter, gridDim.x)) return;

#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    column_sums::add_partial_rows<W>(sums.dw, gridDim.x, column_of(p), columns, tile,
                                     head.dw.data());
    __syncthreads();
  }
  if (threadIdx.y >= 2) return;
  double sum = 0;  // of the loss by warp 0, of db by warp 1
  for (unsigned block = threadIdx.x; block < gridDim.x; block += kWarp)
    sum += sums.scalar[2 * block + threadIdx.y];
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  if (threadIdx.y == 0)
    *head.loss = static_cast<float>(share * sum);
  else if (head.dbias)
    *head.dbias = static_cast<float>(sum);
}

void zero(float* to, int64_t n, cudaStream_t stream) {
  if (to) HLITE_CUDA(cudaMemsetAsync(to, 0, static_cast<size_t>(n) * sizeof(float), stream));
}

template <typename T>
void run_head(const SumScratch& scratch, cudaStream_t stream, const LossHead<T>& head,
              const LossOptions& options) {
  const int64_t rows = head.x.dim(0), columns = head.x.dim(1);
  if (rows == 0) {
    zero(head.loss, 1, stream);
    zero(head.dw.data(), columns, stream);
    return zero(head.dbias, 1, stream);
  }
  if (!is_packable<T>(columns, head.x.data(), head.w.data(), head.dx.data()))
    throw CudaError("loss_head: expected matrices aligned to 16 bytes");
  constexpr int64_t kBlocks = column_sums::kBlocks;
  const int64_t rows_per_block = column_sums::rows_per_block(rows, kBlocks, kWarps);
  const HeadSums sums = {scratch.partial.data() + 4 * kBlocks,
                         reinterpret_cast<double*>(scratch.partial.data()), scratch.counters};
  const int64_t mean_over = options.mean_over > 0 ? options.mean_over : rows;
  const auto start = [&](auto kernel) {
    launch({.name = "loss_head",
            .grid = grid_for(rows, rows_per_block),
            .block = dim3(kWarp, kWarps),
            .shared_bytes = kSharedBytes,
            .stream = stream},
           kernel, head, options, 1.0 / static_cast<double>(mean_over), rows_per_block, sums);
  };
  constexpr int64_t kAcross = kWarp * kPackCount<T>;
  if (columns <= kAcross)
    start(loss_head_kernel<1, T>);
  else if (columns <= 2 * kAcross)
    start(loss_head_kernel<2, T>);
  else
    start(loss_head_kernel<4, T>);
}

}  // namespace

template <typename T>
void loss_head(Matmul& matmul, cudaStream_t stream, const LossHead<T>& head,
               const LossOptions& options) {
  run_head(scratch_of(matmul), stream, head, options);
}

HLITE_KERNELS(loss_head) {
  for_each_float([&]<typename T>() { list.add<loss_head<T>>(kernels::loss_head<T>); });
}

}  // namespace hlite::ops::gpu
