// Kernels of the recurrence of GRUs: a block carries the states of a few samples through all
// positions, in shared memory. A thread has some numbers of the states, each with its column of
// every gate, so that all that a number needs but the products is its own; R comes from L1 or L2,
// once for all samples of the block. Nothing of a device is read on the host: blocks run as long as
// their longest sample.
#include "hugectr_lite/ops/gru.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kSamples = 4;  // of a block
constexpr int kMaxGruThreads = 256;

// The samples from `first` on, and their lengths: -1 of those beyond the batch.
template <typename T>
struct BlockSamples {
  int64_t first, longest = 0, length[kSamples];
  __device__ BlockSamples(const GruTensors<T>& gru, int64_t begin) : first(begin) {
    for (int i = 0; i < kSamples; ++i) {
      length[i] = first + i < gru.states.dim(0) ? gru.length(first + i) : -1;
      longest = length[i] > longest ? length[i] : longest;
    }
  }
};

// Shared: the states before and after a position, [2,kSamples,n].
template <typename T>
__global__ void __launch_bounds__(kMaxGruThreads) forward_kernel(GruTensors<T> gru) {
  const int64_t positions = gru.states.dim(1), n = gru.states.dim(2);
  float* const shared = dynamic_shared<float>();
  const int64_t stride = int64_t{gridDim.x} * kSamples;
  for (int64_t first = int64_t{blockIdx.x} * kSamples; first < gru.states.dim(0); first += stride) {
    const BlockSamples<T> samples(gru, first);
    for (int64_t j = threadIdx.x; j < 2 * kSamples * n; j += blockDim.x) shared[j] = 0;
    __syncthreads();
    for (int64_t t = 0; t < positions; ++t) {
      const float* const before = shared + t % 2 * kSamples * n;
      float* const after = shared + (t + 1) % 2 * kSamples * n;
      for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
        float sums[kSamples][3] = {};
        if (t > 0 && t < samples.longest)
          for (int64_t k = 0; k < n; ++k) {
            const float* const weights = gru.recurrent.row(k) + j;
            const float r = weights[0], z = weights[n], c = weights[2 * n];
#pragma unroll
            for (int i = 0; i < kSamples; ++i) {
              const float h = before[i * n + k];
              sums[i][0] += h * r;
              sums[i][1] += h * z;
              sums[i][2] += h * c;
            }
          }
#pragma unroll
        for (int i = 0; i < kSamples; ++i) {
          if (samples.length[i] < 0) continue;
          const int64_t row = gru.row(samples.first + i, t);
          T& out = gru.states.data()[row * n + j];
          if (t >= samples.length[i]) {
            out = from_float<T>(0.0f);
            continue;
          }
          T* const p = gru.gates.data() + row * 3 * n + j;
          const float r = 1 / (1 + std::exp(-(to_float(p[0]) + sums[i][0])));
          const float z = 1 / (1 + std::exp(-(to_float(p[n]) + sums[i][1])));
          const float c = std::tanh(to_float(p[2 * n]) + r * sums[i][2]);
          const float h = before[i * n + j];
          const float next = h + gru.score(row) * (1 - z) * (c - h);
          after[i * n + j] = next;
          out = from_float<T>(next);
          p[0] = from_float<T>(r);
          p[n] = from_float<T>(z);
          p[2 * n] = from_float<T>(c);
          if (gru.products.data())
            gru.products.data()[row * 3 * n + 2 * n + j] = from_float<T>(sums[i][2]);
        }
      }
      __syncthreads();
    }
  }
}

// One number of a sample's state at a position; returns its part of da.
template <typename T>
__device__ float step_back(const GruTensors<T>& gru, int64_t row, bool is_first, int64_t j,
                           float above, float* products, float& dh) {
  const int64_t n = gru.states.dim(2);
  T* const p = gru.gates.data() + row * 3 * n + j;
  T* const u = gru.products.data() + row * 3 * n + j;
  const float before = is_first ? 0.0f : to_float(gru.states.data()[(row - 1) * n + j]);
  const GruGradient out = gru_gradient(dh + above, gru.score(row), to_float(p[0]), to_float(p[n]),
                                       to_float(p[2 * n]), to_float(u[2 * n]), before);
  dh = out.dh;
  products[j] = out.dr;
  products[n + j] = out.dz;
  products[2 * n + j] = out.product;
  p[0] = from_float<T>(out.dr);
  p[n] = from_float<T>(out.dz);
  p[2 * n] = from_float<T>(out.dc);
  u[0] = from_float<T>(is_first ? 0.0f : out.dr);
  u[n] = from_float<T>(is_first ? 0.0f : out.dz);
  u[2 * n] = from_float<T>(is_first ? 0.0f : out.product);
  return out.da;
}

// Shared: dL/dh of the states, [kSamples,n], and what R^T is multiplied by, [kSamples,3n].
template <typename T>
__global__ void __launch_bounds__(kMaxGruThreads)
    backward_kernel(GruTensors<T> gru, View<const T, 3> dstates, Matrix<const float> turned,
                    Matrix<T> dattention) {
  const int64_t positions = gru.states.dim(1), n = gru.states.dim(2);
  float* const carried = dynamic_shared<float>();
  float* const products = carried + kSamples * n;
  __shared__ float scores[kSamples][kMaxGruThreads / kWarp];
  const int64_t stride = int64_t{gridDim.x} * kSamples;
  for (int64_t first = int64_t{blockIdx.x} * kSamples; first < gru.states.dim(0); first += stride) {
    const BlockSamples<T> samples(gru, first);
    for (int64_t j = threadIdx.x; j < 4 * kSamples * n; j += blockDim.x) carried[j] = 0;
    __syncthreads();
    for (int64_t t = positions; t-- > 0;) {
#pragma unroll
      for (int i = 0; i < kSamples; ++i) {
        float score = 0;
        const int64_t row = gru.row(samples.first + i, t);
        if (t < samples.length[i]) {
          for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
            score += step_back(gru, row, t == 0, j, to_float(dstates.data()[row * n + j]),
                               products + i * 3 * n, carried[i * n + j]);
        } else if (samples.length[i] >= 0) {
          for (int64_t j = threadIdx.x; j < 3 * n; j += blockDim.x)
            gru.gates.data()[row * 3 * n + j] = gru.products.data()[row * 3 * n + j] =
                from_float<T>(0.0f);
        }
        score = warp_sum(score);
        if (threadIdx.x % kWarp == 0) scores[i][threadIdx.x / kWarp] = score;
      }
      __syncthreads();
      if (dattention.data() && threadIdx.x == 0)
        for (int i = 0; i < kSamples; ++i) {
          float sum = 0;
          for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) sum += scores[i][warp];
          if (samples.length[i] >= 0)
            dattention.data()[gru.row(samples.first + i, t)] = from_float<T>(sum);
        }
      if (t > 0 && t < samples.longest)
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
          float sums[kSamples] = {};
          for (int64_t k = 0; k < 3 * n; ++k) {
            const float weight = turned.row(k)[j];
#pragma unroll
            for (int i = 0; i < kSamples; ++i) sums[i] += products[i * 3 * n + k] * weight;
          }
#pragma unroll
          for (int i = 0; i < kSamples; ++i) carried[i * n + j] += sums[i];
        }
      __syncthreads();
    }
  }
}

__global__ void turn_kernel(Matrix<const float> from, Matrix<float> to) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < to.size(); i += stride)
    to.data()[i] = from.row(i % to.dim(1))[i / to.dim(1)];
}

// Blocks that share `arrays` floats for each number of their samples' states.
template <typename T>
LaunchShape blocks_for(const char* name, cudaStream_t stream, const GruTensors<T>& gru,
                       int64_t arrays) {
  const int64_t n = gru.states.dim(2);
  const int64_t threads = std::min<int64_t>(kMaxGruThreads, (n + kWarp - 1) / kWarp * kWarp);
  return {.name = name,
          .grid = grid_for(gru.states.dim(0), kSamples),
          .block = dim3(static_cast<unsigned>(threads)),
          .shared_bytes = static_cast<size_t>(kSamples * arrays * n) * sizeof(float),
          .stream = stream};
}

}  // namespace

template <typename T>
void gru_forward(cudaStream_t stream, const GruTensors<T>& gru) {
  launch(blocks_for("gru_forward", stream, gru, 2), forward_kernel<T>, gru);
}

template <typename T>
void gru_backward(cudaStream_t stream, const GruTensors<T>& gru, View<const T, 3> dstates,
                  Matrix<float> turned, Matrix<T> dattention) {
  launch({.name = "gru_backward",
          .grid = grid_for(turned.size(), kMaxGruThreads),
          .block = dim3(kMaxGruThreads),
          .stream = stream},
         turn_kernel, gru.recurrent, turned);
  launch(blocks_for("gru_backward", stream, gru, 4), backward_kernel<T>, gru, dstates, turned,
         dattention);
}

HLITE_KERNELS(gru) {
  for_each_float([&]<typename T>() {
    list.add<gru_forward<T>>(kernels::gru_forward<T>);
    list.add<gru_backward<T>>(kernels::gru_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
