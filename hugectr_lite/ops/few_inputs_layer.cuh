// A fully connected layer of up to 16 inputs, of bf16 or fp16: one pass with bias, ReLU and mask,
// at the speed of memory. Shapes are those of fully_connected.h.
//
// A warp keeps the weights and biases of 64 outputs in registers and goes from 16 samples to the
// next 16. All inputs are one step of a product, so there is nothing to stage. Which column of w a
// product has where is free: four products together give a lane 8 neighbouring outputs of a sample,
// 16 bytes of y and one of the mask.
//
// DLRM's first layer (batch 65,536; 13, padded to 16, -> 512): 67 MB of y, 4 MB of mask and 2 MB of
// x, 18 us of an H200 at 4.0 TB/s; about 10 us of instructions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hugectr_lite/core/tensor_core.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/chunks.cuh"

namespace hlite::ops::gpu {
namespace few_inputs {

constexpr int kInputs = 16, kSamples = 16;  // of a product
constexpr int kWarps = 8;                   // of a block, at most
constexpr int kProducts = 4;                // of 8 outputs each, for one group of 32
constexpr int kGroups = 2;
constexpr int kGroupOutputs = 32, kLaneOutputs = 8;
constexpr int kWarpOutputs = kGroups * kGroupOutputs;

struct [[gnu::may_alias]] alignas(8) MaskWords {
  uint32_t of_group[kGroups];
};

// Elements `at` and at + 1 of a row of n; 0 for what is beyond. kWhole: they are there.
template <bool kWhole, typename T>
__device__ inline uint32_t two_of(const T* row, int at, int n) {
  if constexpr (kWhole) return reinterpret_cast<const Two*>(row + at)->word;
  const uint32_t first = at < n ? row[at].bits : 0, second = at + 1 < n ? row[at + 1].bits : 0;
  return first | second << 16;
}

// The factor A of 16 samples from `first` on, for lane 4 g + q.
template <bool kWhole, typename T>
__device__ inline void load_samples(const Matrix<const T>& x, int64_t first, int g, int q,
                                    uint32_t (&a)[4]) {
  const int in = static_cast<int>(x.dim(1));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + half * 8 + g;
    const bool there = row < x.dim(0);
    a[half] = there ? two_of<kWhole>(x.row(row), 2 * q, in) : 0;
    a[half + 2] = there ? two_of<kWhole>(x.row(row), 2 * q + 8, in) : 0;
  }
}

// x has kInputs columns and rows at multiples of 4 bytes (kWhole), or fewer columns; y has rows of
// whole chunks (kChunks).
template <bool kWhole, bool kChunks, typename T>
__global__ void __launch_bounds__(kWarps* kWarp, 2)
    forward_kernel(Matrix<const T> x, Matrix<const T> w, const T* bias, bool relu, Matrix<T> y,
                   Matrix<uint8_t> mask) {
  const int in = static_cast<int>(x.dim(1)), out = static_cast<int>(w.dim(1));
  const int g = lane_index() / 4, q = lane_index() % 4;
  const int begin = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) * kWarpOutputs;
  if (begin >= out) return;

  // Column 2 c + e of product p is output 8 c + 2 p + e of the group.
  uint32_t b[kGroups][kProducts][2];
  float biases[kGroups][kLaneOutputs];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int first = begin + group * kGroupOutputs;
#pragma unroll
    for (int p = 0; p < kProducts; ++p)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = first + g / 2 * 8 + 2 * p + g % 2, row = half * 8 + 2 * q;
        uint32_t word = 0;
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (column < out && row + e < in)
            word |= static_cast<uint32_t>(w.row(row + e)[column].bits) << (16 * e);
        b[group][p][half] = word;
      }
#pragma unroll
    for (int i = 0; i < kLaneOutputs; ++i) {
      const int column = first + q * kLaneOutputs + i;
      biases[group][i] = bias && column < out ? to_float(bias[column]) : 0.0f;
    }
  }

  const int64_t step = int64_t{gridDim.x} * kSamples;
  int64_t sample = int64_t{blockIdx.x} * kSamples;
  uint32_t next[4];
  load_samples<kWhole>(x, sample, g, q, next);
  for (; sample < x.dim(0); sample += step) {
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = next[i];
    load_samples<kWhole>(x, sample + step, g, q, next);

    uint32_t passed[2][kGroups] = {};  // of the sample and the eighth after it, a byte a lane
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int first = begin + group * kGroupOutputs + q * kLaneOutputs;
      float sums[kProducts][4];
#pragma unroll
      for (int p = 0; p < kProducts; ++p) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[p][i] = biases[group][2 * p + i % 2];
        multiply_add<T>(sums[p], a, b[group][p][0], b[group][p][1]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Chunk results;
        uint32_t bits = 0;
#pragma unroll
        for (int p = 0; p < kProducts; ++p) {
          float z[2] = {sums[p][2 * half], sums[p][2 * half + 1]};
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (relu) z[e] = ops::relu(z[e]);
            bits |= (z[e] > 0 ? 1u : 0u) << (2 * p + e);
          }
          results.words[p] = pack_pair<T>(z[0], z[1]);
        }
        passed[half][group] = bits << (8 * q);
        const int64_t row = sample + half * 8 + g;
        if (row >= x.dim(0)) continue;
        T* const to = y.row(row) + first;
        if constexpr (kChunks) {
          if (first < out) *reinterpret_cast<Chunk*>(to) = results;
        } else {
#pragma unroll
          for (int i = 0; i < kLaneOutputs; ++i)
            if (first + i < out)
              to[i].bits = static_cast<uint16_t>(results.words[i / 2] >> (i % 2 * 16));
        }
      }
    }
    if (!mask.data()) continue;
      // The quad's bytes together; then a lane has 8 bytes of a row, for which padding has room.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        passed[half][group] |= __shfl_xor_sync(0xffffffffu, passed[half][group], 1);
        passed[half][group] |= __shfl_xor_sync(0xffffffffu, passed[half][group], 2);
      }
    }
    const int64_t row = sample + q * 8 + g;
    if (q < 2 && row < x.dim(0))
      *reinterpret_cast<MaskWords*>(mask.row(row) + begin / 8) =
          MaskWords{{q == 0 ? passed[0][0] : passed[1][0], q == 0 ? passed[0][1] : passed[1][1]}};
  }
}

}  // namespace few_inputs

// Whether few_inputs_forward() takes a layer, of T -> Y.
template <typename T, typename Y>
bool takes_few_inputs(const Matrix<const T>& x, int64_t out) {
  return sizeof(T) == 2 && std::is_same_v<T, Y> && x.dim(1) >= 1 &&
         x.dim(1) <= few_inputs::kInputs && out > 1;
}

template <typename T>
void few_inputs_forward(cudaStream_t stream, Matrix<const T> x, Matrix<const T> w, const T* bias,
                        bool relu, Matrix<T> y, Matrix<uint8_t> mask) {
  using namespace few_inputs;
  const int64_t out = w.dim(1), warps = (out + kWarpOutputs - 1) / kWarpOutputs;
  const int64_t block_warps = std::min<int64_t>(warps, kWarps);
  const bool whole = x.dim(1) == kInputs && reinterpret_cast<uintptr_t>(x.data()) % 4 == 0;
  const bool chunks = out % kChunk<T> == 0 && is_aligned(y.data());
  const auto start = [&](auto kernel) {
    LaunchShape shape{.name = "few_inputs_forward",
                      .block = dim3(kWarp, static_cast<unsigned>(block_warps)),
                      .stream = stream};
    const int64_t down = (warps + block_warps - 1) / block_warps;
    const int64_t across = std::max<int64_t>(1, resident_blocks(shape, kernel) / down);
    shape.grid = dim3(grid_for(x.dim(0), kSamples, across).x, static_cast<unsigned>(down));
    launch(shape, kernel, x, w, bias, relu, y, mask);
  };
  if (whole && chunks)
    start(forward_kernel<true, true, T>);
  else if (chunks)
    start(forward_kernel<false, true, T>);
  else
    start(forward_kernel<false, false, T>);
}

}  // namespace hlite::ops::gpu
