// The dot interaction's launchers, and its kernels for any shape. Shapes that a warp can take,
// which are the usual ones, go to interaction_tensor_core.cu and interaction_fma.cu;
// speed is there.
//
// One block of 32 x 4 threads works on one sample at a time. It copies a chunk of columns of the
// sample's n' = n + 1 vectors into shared memory, then its threads take turns at the pairs
// (forward) or at the elements (backward). Rows of this tile lie an odd number of floats apart, so
// that one column of consecutive rows, which is what a warp reads in forward,
// meets different banks.
//
// Every sum runs in one thread, over ascending columns (forward) or inputs (backward): the bits
// depend on neither grid nor chunk. Backward needs only the columns that it overwrites, after they
// are staged: so the gradients may replace the inputs.
#include "hugectr_lite/ops/interaction.h"

#include <algorithm>
#include <string>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/l2_cache.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/interaction_inputs.cuh"
#include "hugectr_lite/ops/interaction_warp.cuh"
#include "hugectr_lite/ops/non_finite.h"

namespace hlite::ops::gpu {
namespace {

const dim3 kBlock(32, 4);

// A sample's vectors, some columns at a time.
template <typename T>
struct ChunkedInputs {
  StoredInputs<T> in;
  int64_t chunk;  // columns staged at a time

  HLITE_HD int64_t tile_stride() const { return chunk | 1; }
  // Columns of the chunk that starts at `begin`.
  HLITE_HD int64_t columns(int64_t begin) const {
    return begin + chunk < in.width() ? chunk : in.width() - begin;
  }
};

// Calls each(i, column) for every column of every input i, in turns. A warp takes consecutive
// columns of one input.
template <typename T, typename Each>
__device__ inline void for_each_element(const ChunkedInputs<T>& of, int64_t begin, Each each) {
  for (int64_t i = threadIdx.y; i < of.in.count(); i += blockDim.y)
    for (int64_t column = threadIdx.x; column < of.columns(begin); column += blockDim.x)
      each(i, column);
}

// tile[i * tile_stride() + column] = input i of sample b at begin + column.
template <typename T>
__device__ inline void stage(const ChunkedInputs<T>& of, int64_t b, int64_t begin, float* tile) {
  for_each_element(of, begin, [&](int64_t i, int64_t column) {
    tile[i * of.tile_stride() + column] = to_float(of.in.vector(b, i)[begin + column]);
  });
}
// Pairs in the order of their output columns, by turns: neighbouring threads write neighbouring
// elements, share input c and read consecutive inputs r.
struct PairTurns {
  int64_t r, c = 1;

  __device__ explicit PairTurns(int64_t first) : r(first) { wrap(); }
  __device__ void next(int64_t threads) {
    r += threads;
    wrap();
  }
  __device__ void wrap() {
    for (; r >= c; ++c) r -= c;
  }
};

// A thread keeps so many sums while the chunks pass, which they do again for more pairs.
constexpr int kSums = 8;

template <typename T>
__global__ void __launch_bounds__(128) forward_kernel(ChunkedInputs<T> of, Matrix<T> out) {
  float* tile = dynamic_shared<float>();
  const StoredInputs<T>& in = of.in;
  const int64_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int64_t threads = blockDim.x * blockDim.y;
  const int64_t width = in.width(), stride = of.tile_stride();
  const int64_t pairs = in.count() * (in.count() - 1) / 2;
  for (int64_t b = blockIdx.x; b < in.samples(); b += gridDim.x) {
    T* row = out.row(b);
    PairTurns turns(thread);
    int64_t done = 0;
    do {
      float sums[kSums] = {};
      for (int64_t begin = 0; begin < width; begin += of.chunk) {
        const int64_t columns = of.columns(begin);
        stage(of, b, begin, tile);
        __syncthreads();
        if (done == 0)
          for (int64_t column = thread; column < columns; column += threads)
            row[begin + column] = from_float<T>(tile[column]);
        PairTurns pair = turns;
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
          if (pair.c >= in.count()) continue;
          const float *x = tile + pair.r * stride, *y = tile + pair.c * stride;
          for (int64_t column = 0; column < columns; ++column) sums[k] += x[column] * y[column];
          pair.next(threads);
        }
        __syncthreads();
      }
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        if (turns.c >= in.count()) continue;
        row[interaction_column(width, turns.r, turns.c)] = from_float<T>(sums[k]);
        turns.next(threads);
      }
      done += threads * kSums;
    } while (done < pairs);
    if (thread == 0) row[out.dim(1) - 1] = from_float<T>(0.0f);
  }
}

// Neighbouring threads hold neighbouring columns of one input: they read consecutive floats of the
// tile, and one and the same element of dout.
template <typename T>
__global__ void __launch_bounds__(128)
    backward_kernel(ChunkedInputs<T> of, Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                    int* gradient_overflow, bool relu) {
  float* tile = dynamic_shared<float>();
  const StoredInputs<T>& in = of.in;
  const int64_t width = in.width(), stride = of.tile_stride();
  bool found = false;
  for (int64_t b = blockIdx.x; b < in.samples(); b += gridDim.x) {
    const T* grad = dout.row(b);
    for (int64_t begin = 0; begin < width; begin += of.chunk) {
      stage(of, b, begin, tile);
      __syncthreads();
      for_each_element(of, begin, [&](int64_t i, int64_t column) {
        T* to = i == 0 ? dbottom.row(b) : dslots.row(b) + (i - 1) * width;
        float sum = i == 0 ? to_float(grad[begin + column]) : 0.0f;
        // Pairs (k, i) with k < i lie side by side; from (i, k) to (i, k + 1) it is k floats.
        const T* pair = grad + interaction_column(width, 0, i);
        for (int64_t k = 0; k < i; ++k) sum += to_float(pair[k]) * tile[k * stride + column];
        pair = grad + interaction_column(width, i, i + 1);
        for (int64_t k = i + 1; k < in.count(); pair += k, ++k)
          sum += to_float(*pair) * tile[k * stride + column];
        if (i == 0 && relu) sum = relu_gradient(tile[column], sum);
        const T rounded = from_float<T>(sum);
        to[begin + column] = rounded;
        found |= i > 0 && non_finite(to_float(rounded));
      });
      __syncthreads();
    }
  }
  if (gradient_overflow != nullptr && found) atomicExch(gradient_overflow, 1);
}

// Cuts the vectors into chunks and starts `kernel` with one block a sample.
template <typename T, typename... Params, typename... Args>
void start(const char* name, cudaStream_t stream, const InteractionLaunch& how,
           const StoredInputs<T>& in, void (*kernel)(Params...), const Args&... args) {
  const ChunkedInputs<T> of{in, interaction_chunk(in.count(), in.width(), how.shared_bytes)};
  if (of.chunk == 0)
    throw CudaError(std::string(name) + ": expected slots whose columns fit into " +
                    std::to_string(how.shared_bytes) + " bytes of shared memory, found " +
                    std::to_string(in.count() - 1) + " slots of width " +
                    std::to_string(in.width()));
  const size_t bytes = static_cast<size_t>(in.count() * of.tile_stride()) * sizeof(float);
  launch({.name = name,
          .grid = grid_for(in.samples(), 1, how.max_blocks),
          .block = kBlock,
          .shared_bytes = bytes,
          .stream = stream},
         kernel, of, args...);
}

}  // namespace

int64_t interaction_chunk(int64_t inputs, int64_t width, int64_t shared_bytes) {
  const int64_t stride = shared_bytes / (inputs * static_cast<int64_t>(sizeof(float)));
  if (stride >= (width | 1)) return width;
  // The widest odd stride that fits; a chunk that is odd needs no padding.
  return stride % 2 == 1 ? stride : std::max<int64_t>(stride - 1, 0);
}

template <typename T>
void interaction_forward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                         Matrix<T> out, const InteractionLaunch& how) {
  const StoredInputs<T> in{bottom, slots};
  if (forward_by_warps<T>(stream, in, out, how)) return;
  start("interaction_forward", stream, how, in, forward_kernel<T>, out);
}

template <typename T>
void interaction_forward_of_rows(cudaStream_t stream, Matrix<const T> bottom,
                                 const InteractionRows& rows, View<T, 3> slots, Matrix<T> out,
                                 const InteractionLaunch& how) {
  if (!forward_of_rows_by_warps<T>(stream, bottom, rows, slots, out, how))
    throw CudaError(
        "interaction_forward_of_rows: expected up to 63 slots of a width that 16 "
        "divides, in vectors and rows at multiples of 16 bytes, found " +
        std::to_string(slots.dim(1)) + " of width " + std::to_string(slots.dim(2)));
}

int64_t interaction_l2_bytes() { return l2_bytes(); }

template <typename T>
void interaction_backward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                          int32_t* gradient_overflow, bool relu, const InteractionLaunch& how) {
  const StoredInputs<T> in{bottom, slots};
  if (backward_by_warps<T>(stream, in, dout, dbottom, dslots, gradient_overflow, relu, how)) return;
  start("interaction_backward", stream, how, in, backward_kernel<T>, dout, dbottom, dslots,
        gradient_overflow, relu);
}

HLITE_KERNELS(interaction) {
  list.add<interaction_l2_bytes>(kernels::interaction_l2_bytes);
  for_each_float([&]<typename T>() {
    list.add<interaction_forward<T>>(kernels::interaction_forward<T>);
    if constexpr (!std::is_same_v<T, float>)
      list.add<interaction_forward_of_rows<T>>(kernels::interaction_forward_of_rows<T>);
    list.add<interaction_backward<T>>(kernels::interaction_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
