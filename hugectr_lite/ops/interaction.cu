// Kernels of the dot interaction.
//
// One block of 32 x 4 threads works on one sample at a time. It copies a chunk of columns of the
// sample's n' = n + 1 vectors into shared memory, then its threads take turns at the pairs
// (forward) or at the elements (backward). Rows of this tile lie an odd number of floats apart, so
// that one column of consecutive rows, which is what a warp reads in forward, meets different
// banks.
//
// Every sum runs in one thread, over ascending columns (forward) or inputs (backward): the bits
// depend on neither grid nor chunk. Backward needs only the columns that it overwrites, after they
// are staged: so the gradients may replace the inputs.
#include <algorithm>
#include <string>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/interaction.h"
#include "hugectr_lite/ops/interaction_kernels.cuh"

namespace hlite::ops::gpu {
namespace {

const dim3 kBlock(32, 4);

template <typename T>
struct Inputs {
  Matrix<const T> bottom;  // [B,V]
  View<const T, 3> slots;  // [B,n,V]
  int64_t chunk;           // columns staged at a time

  HLITE_HD int64_t samples() const { return bottom.dim(0); }
  HLITE_HD int64_t width() const { return bottom.dim(1); }
  HLITE_HD int64_t count() const { return slots.dim(1) + 1; }
  HLITE_HD int64_t tile_stride() const { return chunk | 1; }
  // Columns of the chunk that starts at `begin`.
  HLITE_HD int64_t columns(int64_t begin) const {
    return begin + chunk < width() ? chunk : width() - begin;
  }
};

// tile[i * tile_stride() + column] = input i of sample b at begin + column. A warp reads
// consecutive floats of one vector.
template <typename T>
__device__ inline void stage(const Inputs<T>& in, int64_t b, int64_t begin, float* tile) {
  for (int64_t i = threadIdx.y; i < in.count(); i += blockDim.y) {
    const T* vector = i == 0 ? in.bottom.row(b) : in.slots.row(b) + (i - 1) * in.slots.dim(2);
    for (int64_t column = threadIdx.x; column < in.columns(begin); column += blockDim.x)
      tile[i * in.tile_stride() + column] = to_float(vector[begin + column]);
  }
}

// Pairs in the order of their output columns: neighbouring threads write neighbouring floats, share
// input c and read consecutive inputs r. A sum over several chunks rests in `out` between them.
template <typename T>
__global__ void __launch_bounds__(128) forward_kernel(Inputs<T> in, Matrix<T> out) {
  float* tile = dynamic_shared<float>();
  const int64_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int64_t threads = blockDim.x * blockDim.y;
  const int64_t width = in.width(), stride = in.tile_stride();
  for (int64_t b = blockIdx.x; b < in.samples(); b += gridDim.x) {
    T* row = out.row(b);
    for (int64_t begin = 0; begin < width; begin += in.chunk) {
      const int64_t columns = in.columns(begin);
      stage(in, b, begin, tile);
      __syncthreads();
      for (int64_t column = thread; column < columns; column += threads)
        row[begin + column] = from_float<T>(tile[column]);
      int64_t r = thread, c = 1;
      for (;; r += threads) {
        for (; r >= c; ++c) r -= c;
        if (c >= in.count()) break;
        const float *x = tile + r * stride, *y = tile + c * stride;
        T* dot = row + interaction_column(width, r, c);
        float sum = begin == 0 ? 0.0f : to_float(*dot);
        for (int64_t column = 0; column < columns; ++column) sum += x[column] * y[column];
        *dot = from_float<T>(sum);
      }
      __syncthreads();
    }
    if (thread == 0) row[out.dim(1) - 1] = from_float<T>(0.0f);
  }
}

// Neighbouring threads hold neighbouring columns of one input: they read consecutive floats of the
// tile, and one and the same element of dout.
template <typename T>
__global__ void __launch_bounds__(128)
    backward_kernel(Inputs<T> in, Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots) {
  float* tile = dynamic_shared<float>();
  const int64_t width = in.width(), stride = in.tile_stride();
  for (int64_t b = blockIdx.x; b < in.samples(); b += gridDim.x) {
    const T* grad = dout.row(b);
    for (int64_t begin = 0; begin < width; begin += in.chunk) {
      const int64_t columns = in.columns(begin);
      stage(in, b, begin, tile);
      __syncthreads();
      for (int64_t i = threadIdx.y; i < in.count(); i += blockDim.y) {
        T* to = i == 0 ? dbottom.row(b) : dslots.row(b) + (i - 1) * width;
        for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
          float sum = i == 0 ? to_float(grad[begin + column]) : 0.0f;
          // Pairs (k, i) with k < i lie side by side; from (i, k) to (i, k + 1) it is k floats.
          const T* pair = grad + interaction_column(width, 0, i);
          for (int64_t k = 0; k < i; ++k) sum += to_float(pair[k]) * tile[k * stride + column];
          pair = grad + interaction_column(width, i, i + 1);
          for (int64_t k = i + 1; k < in.count(); pair += k, ++k)
            sum += to_float(*pair) * tile[k * stride + column];
          to[begin + column] = from_float<T>(sum);
        }
      }
      __syncthreads();
    }
  }
}

// Cuts the vectors into chunks and starts `kernel` with one block a sample.
template <typename T, typename... Params, typename... Args>
void start(const char* name, cudaStream_t stream, const InteractionLaunch& how,
           Matrix<const T> bottom, View<const T, 3> slots, void (*kernel)(Params...),
           const Args&... args) {
  Inputs<T> in{bottom, slots, 0};
  in.chunk = interaction_chunk(in.count(), in.width(), how.shared_bytes);
  if (in.chunk == 0)
    throw CudaError(std::string(name) + ": expected slots whose columns fit into " +
                    std::to_string(how.shared_bytes) + " bytes of shared memory, found " +
                    std::to_string(slots.dim(1)) + " slots of width " + std::to_string(in.width()));
  const size_t bytes = static_cast<size_t>(in.count() * in.tile_stride()) * sizeof(float);
  launch({.name = name,
          .grid = grid_for(in.samples(), 1, how.max_blocks),
          .block = kBlock,
          .shared_bytes = bytes,
          .stream = stream},
         kernel, in, args...);
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
  start("interaction_forward", stream, how, bottom, slots, forward_kernel<T>, out);
}

template <typename T>
void interaction_backward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                          const InteractionLaunch& how) {
  start("interaction_backward", stream, how, bottom, slots, backward_kernel<T>, dout, dbottom,
        dslots);
}

#define HLITE_INSTANTIATE(T)                                                                       \
  template void interaction_forward<T>(cudaStream_t, Matrix<const T>, View<const T, 3>, Matrix<T>, \
                                       const InteractionLaunch&);                                  \
  template void interaction_backward<T>(cudaStream_t, Matrix<const T>, View<const T, 3>,           \
                                        Matrix<const T>, Matrix<T>, View<T, 3>,                    \
                                        const InteractionLaunch&);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops::gpu
