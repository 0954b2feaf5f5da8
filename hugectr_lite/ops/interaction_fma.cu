// The dot interaction of float by a warp a sample, for up to 64 vectors whose width is a multiple
// of 4. (interaction.cu has what takes any shape.) No TF32: products and sums are float's.
//
// Operands come from shared memory, whose 128 bytes a cycle are fewer than the multiply-adds could
// use. So a lane computes many results from what it reads:
//
//   forward   4 x 4 dot products, of inputs g, g + G, g + 2G, g + 3G with h, h + G, ...; g <= h < G
//             = n'/4. Lanes of one group of banks then read neighbouring inputs, not every fourth.
//   backward  4 columns of 8 gradients
//
// Sums run over ascending columns (forward) or inputs (backward).
//
// One sample of 26 slots of 128, 65,536 samples, an H200 (4.0 of 4.8 TB/s reachable, 67 TFLOP/s):
//
//                       bytes                        us      FLOP (of use)         us   cycles
//   forward             27 * 512 + 1,920 = 15,744    258     114,688 (89,856)      112  1,150
//   backward            1,920 + 54 * 512 = 29,568    484     221,184 (179,712)     217  1,100
//
// The last column is of an SM and its busiest unit, shared memory's 8 * 4 * 32 + staging in
// forward, the multiply-adds' 864 + staging in backward; memory takes 910 and 1,710. So forward is
// bound by shared memory at about 325 us, backward by memory.
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/interaction_warp.cuh"
#include "hugectr_lite/ops/non_finite.h"

namespace hlite::ops::gpu {
namespace {

constexpr int kForwardRows = 4;   // inputs of a lane, on either side
constexpr int kBackwardRows = 8;  // gradients of a lane

// Inputs r < c of the pair at c(c-1)/2 + r.
struct PairTable {
  uint16_t pair[kMaxInputs * (kMaxInputs - 1) / 2];  // c * 256 + r
};
constexpr PairTable make_pair_table() {
  PairTable table{};
  int p = 0;
  for (int c = 1; c < kMaxInputs; ++c)
    for (int r = 0; r < c; ++r) table.pair[p++] = static_cast<uint16_t>(c * 256 + r);
  return table;
}
static __device__ const PairTable kPairs = make_pair_table();

struct Pair {
  int r, c;
};
__device__ inline Pair pair_at(int p) {
  const int pair = kPairs.pair[p];
  return {pair % 256, pair / 256};
}

HLITE_HD int groups_of(int inputs, int rows) { return (inputs + rows - 1) / rows; }

struct ForwardMemory {
  SampleSize size;

  HLITE_HD int tile_bytes() const {
    const int rows = groups_of(size.inputs, kForwardRows) * kForwardRows;
    return rows * tile_stride<float>(size.width) * int{sizeof(float)};
  }
  HLITE_HD int bytes() const { return multiple_of_16(tile_bytes()) + row_bytes<float>(size); }
};

__global__ void __launch_bounds__(kMaxWarps* kWarp)
    forward_kernel(StoredInputs<float> in, Matrix<float> out) {
  const SampleSize size = SampleSize::of(in);
  const ForwardMemory memory{size};
  const int stride = tile_stride<float>(size.width), lane = lane_index();
  const int groups = groups_of(size.inputs, kForwardRows);
  float* const tile = reinterpret_cast<float*>(warp_memory(memory.bytes()));
  float* const row_space = tile + multiple_of_16(memory.tile_bytes()) / sizeof(float);
  for (int64_t b = first_sample(); b < in.samples(); b += sample_step()) {
    float* const to = out.row(b);
    float* const row = row_space + elements_past_16(to);
    __syncwarp();  // the last sample's row is read
    stage(in, b, size, tile);
    wait_for_chunks();
    __syncwarp();

    for (int v = lane; v < size.width; v += kWarp) row[v] = tile[v];
    // Groups g <= h are numbered like pairs g < h + 1.
    for (int q = lane; q < groups * (groups + 1) / 2; q += kWarp) {
      const int g = pair_at(q).r, h = pair_at(q).c - 1;
      float sums[kForwardRows][kForwardRows] = {};
      for (int v = 0; v < size.width; v += 4) {
        Floats x[kForwardRows], y[kForwardRows];
#pragma unroll
        for (int i = 0; i < kForwardRows; ++i) {
          x[i] = *reinterpret_cast<const Floats*>(tile + (g + i * groups) * stride + v);
          y[i] = *reinterpret_cast<const Floats*>(tile + (h + i * groups) * stride + v);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int i = 0; i < kForwardRows; ++i)
#pragma unroll
            for (int j = 0; j < kForwardRows; ++j) sums[i][j] += x[i].at[k] * y[j].at[k];
      }
#pragma unroll
      for (int i = 0; i < kForwardRows; ++i)
#pragma unroll
        for (int j = 0; j < kForwardRows; ++j) {
          const int one = g + i * groups, other = h + j * groups;
          const int r = one < other ? one : other, c = one < other ? other : one;
          // Within one group each pair is there twice, and each input with itself.
          if (c < size.inputs && (g < h || i < j))
            row[size.width + c * (c - 1) / 2 + r] = sums[i][j];
        }
    }
    if (lane == 0) row[size.out_width() - 1] = 0.0f;
    __syncwarp();
    write_row(to, row, size.out_width());
  }
}

struct BackwardMemory {
  SampleSize size;

  HLITE_HD int tile_floats() const { return size.inputs * tile_stride<float>(size.width); }
  HLITE_HD int weights_stride() const {
    return groups_of(size.inputs, kBackwardRows) * kBackwardRows + 4;
  }
  HLITE_HD int weights_floats() const { return size.inputs * weights_stride(); }
  HLITE_HD int bytes() const {
    return multiple_of_16((tile_floats() + weights_floats()) * int{sizeof(float)}) +
           row_bytes<float>(size);
  }
};

__global__ void __launch_bounds__(kMaxWarps* kWarp)
    backward_kernel(StoredInputs<float> in, Matrix<const float> dout, Matrix<float> dbottom,
                    View<float, 3> dslots, int* gradient_overflow, bool relu) {
  const SampleSize size = SampleSize::of(in);
  const BackwardMemory memory{size};
  const int stride = tile_stride<float>(size.width), lane = lane_index();
  const int weights_stride = memory.weights_stride();
  float* const tile = reinterpret_cast<float*>(warp_memory(memory.bytes()));
  float* const weights = tile + memory.tile_floats();  // [n',n'], symmetric
  float* const row_space = tile + (memory.bytes() - row_bytes<float>(size)) / int{sizeof(float)};
  for (int i = lane; i < size.inputs; i += kWarp) weights[i * weights_stride + i] = 0.0f;
  bool found = false;
  for (int64_t b = first_sample(); b < in.samples(); b += sample_step()) {
    float* const grad = row_space + elements_past_16(dout.row(b));
    __syncwarp();  // the last sample's vectors are read
    stage(in, b, size, tile);
    fetch_row(grad, dout.row(b), size.out_width());
    wait_for_chunks();
    __syncwarp();

    for (int p = lane; p < size.pairs(); p += kWarp) {
      const Pair pair = pair_at(p);
      const float weight = grad[size.width + p];
      weights[pair.r * weights_stride + pair.c] = weight;
      weights[pair.c * weights_stride + pair.r] = weight;
    }
    __syncwarp();
    for (Turns at(groups_of(size.inputs, kBackwardRows), size.width / 4); at.left(); at.next()) {
      const int first = at.row * kBackwardRows, v = at.column * 4;
      Floats sums[kBackwardRows] = {};
      if (first == 0)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[0].at[j] = grad[v + j];
      for (int k = 0; k < size.inputs; ++k) {
        const Floats x = *reinterpret_cast<const Floats*>(tile + k * stride + v);
        Floats s[kBackwardRows / 4];
#pragma unroll
        for (int q = 0; q < kBackwardRows / 4; ++q)
          s[q] = reinterpret_cast<const Floats*>(weights + k * weights_stride + first)[q];
#pragma unroll
        for (int i = 0; i < kBackwardRows; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[i].at[j] += s[i / 4].at[i % 4] * x.at[j];
      }
#pragma unroll
      for (int i = 0; i < kBackwardRows; ++i) {
        const int row = first + i;
        float* const to = row == 0 ? dbottom.row(b) : dslots.row(b) + int64_t{row - 1} * size.width;
        if (row >= size.inputs) continue;
        if (row == 0 && relu)
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[i].at[j] = relu_gradient(tile[v + j], sums[i].at[j]);
        reinterpret_cast<Floats*>(to)[at.column] = sums[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) found |= row > 0 && non_finite(sums[i].at[j]);
      }
    }
  }
  if (gradient_overflow != nullptr && found) atomicExch(gradient_overflow, 1);
}

bool is_for_fours(const StoredInputs<float>& in) {
  return is_small(in) && in.width() % 4 == 0 && is_aligned(in);
}

}  // namespace

template <>
bool forward_by_warps(cudaStream_t stream, const StoredInputs<float>& in, Matrix<float> out,
                      const InteractionLaunch& how) {
  return is_for_fours(in) &&
         start_warps("interaction_forward", stream, how, in.samples(),
                     ForwardMemory{SampleSize::of(in)}.bytes(), forward_kernel, in, out);
}

template <>
bool backward_by_warps(cudaStream_t stream, const StoredInputs<float>& in, Matrix<const float> dout,
                       Matrix<float> dbottom, View<float, 3> dslots, int32_t* gradient_overflow,
                       bool relu, const InteractionLaunch& how) {
  return is_for_fours(in) && is_aligned(dbottom.data()) && is_aligned(dslots.data()) &&
         start_warps("interaction_backward", stream, how, in.samples(),
                     BackwardMemory{SampleSize::of(in)}.bytes(), backward_kernel, in, dout, dbottom,
                     dslots, gradient_overflow, relu);
}

}  // namespace hlite::ops::gpu
