// The dot interaction of bf16 and fp16 on tensor cores, for up to 64 vectors whose width is a
// multiple of 16. (interaction.cu has what takes any shape.)
//
// A warp works on one sample: it stages the sample's n' vectors X [n',V], rounded up to tiles of 16
// rows, in shared memory, and multiplies 16 x 16 tiles with float sums:
//
//   forward   the tiles of X X^T on and below the diagonal; then its lower triangle, rounded to T,
//             is put together with the bottom vector and the zero to the output row
//   backward  S [n',n'] from dout, symmetric with a zero diagonal; then S X, 16 columns at a time,
//             over the columns of X that it was made of
//
// Memory is read and written in 16 bytes a lane, each byte once. Rows that fill the last tile up
// are garbage in forward, where they meet nothing that is written; zero in backward, where they are
// summed.
//
// One sample of 26 slots of 128 (n' = 27, 32 with the filling), 65,536 samples, an H200 (4.8 TB/s,
// about 4.0 of them reachable; about 790 TFLOP/s):
//
//                       bytes                        us      FLOP (of use)           us
//   forward             27 * 256 + 960 = 7,872       129     196,608 (89,856)        16
//   backward            960 + 54 * 256 = 14,784      242     262,144 (179,712)       22
//   forward, gathering  26 * 512 + 1,320 = 14,632    240     the same
//     and keeping       + 26 * 256 = 21,288          349
//
// So memory bounds all of them. What must not get in its way: 4.0 TB/s are 30 bytes a nanosecond
// and multiprocessor, 460 cycles for a sample's forward, 860 for its backward or gathering forward.
// Of these shared memory takes about 200, 600 and 220, and instructions, four a cycle, 160, 400 and
// 400. At a latency of 800 ns 24 KiB must be on their way at any time: there are 20 resident warps
// of forward (by registers) and 14 of backward (by shared memory; on an A100 16 and 10), which have
// 6.9 to 13 KB each to ask for and wait for them much of their time. Gathered rows that repeat in a
// batch come from the L2 cache, and cost its bandwidth.
#include <mma.h>

#include "hugectr_lite/core/cuda_half.cuh"
#include "hugectr_lite/ops/interaction_warp.cuh"

namespace hlite::ops::gpu {
namespace {

namespace wmma = nvcuda::wmma;

constexpr int kTile = 16;

// Kernels for one width, where it is not 0: what depends on it is computed by the compiler, which
// halves the instructions.
template <int kWidth, typename Inputs>
HLITE_HD SampleSize size_of(const Inputs& in) {
  SampleSize size = SampleSize::of(in);
  if constexpr (kWidth != 0) size.width = kWidth;
  return size;
}

template <typename T>
using Value = typename CudaType<T>::type;
template <typename T, typename Use, typename Layout>
using Factor = wmma::fragment<Use, kTile, kTile, kTile, Value<T>, Layout>;
using Sums = wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float>;

// Resident blocks that registers leave room for: about as many as shared memory does.
template <int kTiles>
constexpr int kMinBlocks = kTiles <= 2 ? 10 : 6;

template <typename T>
__device__ inline const Value<T>* value(const T* p) {
  return reinterpret_cast<const Value<T>*>(p);
}

// Shared memory of a warp. kTiles: tiles of 16 rows that hold the vectors.
template <typename T, int kTiles>
struct ForwardMemory {
  static constexpr int kRows = kTiles * kTile;
  static constexpr int kDotsStride = kRows + 4;

  SampleSize size;

  // The dot products replace the vectors.
  HLITE_HD int tile_bytes() const {
    const int vectors = kRows * tile_stride<T>(size.width) * int{sizeof(T)};
    const int dots = kRows * kDotsStride * int{sizeof(float)};
    return vectors > dots ? vectors : dots;
  }
  HLITE_HD int bytes() const { return tile_bytes() + row_bytes<T>(size); }
};

template <typename T, int kTiles, int kWidth, typename Inputs>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kMinBlocks<kTiles>)
    forward_kernel(Inputs in, Matrix<T> out) {
  const SampleSize size = size_of<kWidth>(in);
  const ForwardMemory<T, kTiles> memory{size};
  constexpr int kDotsStride = ForwardMemory<T, kTiles>::kDotsStride;
  const int stride = tile_stride<T>(size.width), lane = lane_index();
  unsigned char* const mine = warp_memory(memory.bytes());
  T* const tile = reinterpret_cast<T*>(mine);
  float* const dots = reinterpret_cast<float*>(mine);
  T* const row_space = reinterpret_cast<T*>(mine + memory.tile_bytes());
  for (int64_t b = first_sample(); b < in.samples(); b += sample_step()) {
    T* const to = out.row(b);
    T* const row = row_space + elements_past_16(to);
    __syncwarp();  // the last sample's row is read
    stage(in, b, size, tile, row_space);
    wait_for_chunks();
    __syncwarp();

    keep(in, b, size, tile);
    for (int v = lane; v < size.width; v += kWarp) row[v] = tile[v];
    Sums sums[kTiles][kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int j = 0; j <= i; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
#pragma unroll kWidth == 0 ? 2 : kWidth / kTile
    for (int v = 0; v < size.width; v += kTile) {
      Factor<T, wmma::matrix_b, wmma::col_major> right[kTiles];
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
        wmma::load_matrix_sync(right[j], value(tile + j * kTile * stride + v), stride);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        Factor<T, wmma::matrix_a, wmma::row_major> left;
        wmma::load_matrix_sync(left, value(tile + i * kTile * stride + v), stride);
#pragma unroll
        for (int j = 0; j <= i; ++j) wmma::mma_sync(sums[i][j], left, right[j], sums[i][j]);
      }
    }
    __syncwarp();  // the vectors are read
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int j = 0; j <= i; ++j)
        wmma::store_matrix_sync(dots + i * kTile * kDotsStride + j * kTile, sums[i][j], kDotsStride,
                                wmma::mem_row_major);
    __syncwarp();

    for (int p = lane; p < size.pairs(); p += kWarp) {
      const Pair pair = pair_at(p);
      row[size.width + p] = from_float<T>(dots[pair.c * kDotsStride + pair.r]);
    }
    if (lane == 0) row[size.out_width() - 1] = from_float<T>(0.0f);
    __syncwarp();
    write_row(to, row, size.out_width());
  }
}

template <typename T, int kTiles>
struct BackwardMemory {
  static constexpr int kRows = kTiles * kTile;
  static constexpr int kWeightsStride = kRows + kChunk<T>;
  static constexpr int kWeightsBytes = kRows * kWeightsStride * int{sizeof(T)};
  static constexpr int kSumsStride = kTile + 8;  // free of bank conflicts in put_columns
  static constexpr int kSumsBytes = kRows * kSumsStride * int{sizeof(float)};

  SampleSize size;

  HLITE_HD int tile_bytes() const { return kRows * tile_stride<T>(size.width) * int{sizeof(T)}; }
  HLITE_HD int bytes() const {
    return tile_bytes() + kWeightsBytes + kSumsBytes + row_bytes<T>(size);
  }
};

// Zero at `n` elements that begin and end at multiples of 16 bytes.
template <typename T>
__device__ inline void clear(T* to, int n) {
  for (int i = lane_index(); i < n / kChunk<T>; i += kWarp) reinterpret_cast<Chunk*>(to)[i] = {};
}

// Rows [0, n') of 16 columns of sums, rounded to T, to the columns of the tile that start at `to`;
// plus verbatim[0, 16) for row 0. Four lanes have a row; those of every second row come one after
// another, so that 8 lanes read, and 16 write, different banks.
template <typename T, int kRows>
__device__ inline void put_columns(const float* sums, int sums_stride, const T* verbatim,
                                   int inputs, T* to, int stride) {
  const int lane = lane_index(), part = lane % 4, first = lane / 4 % 4 * 2 + lane / 16;
#pragma unroll
  for (int i = 0; i < kRows; i += 8) {
    const int row = first + i;
    if (row == 0 || row >= inputs) continue;
    const Floats four = reinterpret_cast<const Floats*>(sums + row * sums_stride)[part];
    Four<T> narrow;
#pragma unroll
    for (int j = 0; j < 4; ++j) narrow.at[j] = from_float<T>(four.at[j]);
    reinterpret_cast<Four<T>*>(to + row * stride)[part] = narrow;
  }
  if (lane < kTile) to[lane] = from_float<T>(sums[lane] + to_float(verbatim[lane]));
}

template <typename T, int kTiles, int kWidth>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kMinBlocks<kTiles>)
    backward_kernel(StoredInputs<T> in, Matrix<const T> dout, Matrix<T> dbottom,
                    View<T, 3> dslots) {
  using Memory = BackwardMemory<T, kTiles>;
  constexpr int kRows = Memory::kRows, kWeightsStride = Memory::kWeightsStride;
  constexpr int kSumsStride = Memory::kSumsStride;
  const SampleSize size = size_of<kWidth>(in);
  const Memory memory{size};
  const int stride = tile_stride<T>(size.width);
  unsigned char* const mine = warp_memory(memory.bytes());
  T* const tile = reinterpret_cast<T*>(mine);
  T* const weights = reinterpret_cast<T*>(mine + memory.tile_bytes());
  float* const sums = reinterpret_cast<float*>(mine + memory.tile_bytes() + Memory::kWeightsBytes);
  T* const row_space = reinterpret_cast<T*>(mine + memory.bytes() - row_bytes<T>(size));

  using Left = Factor<T, wmma::matrix_a, wmma::row_major>;
  const auto load_weights = [&](Left& left, int i, int k) {
    wmma::load_matrix_sync(left, value(weights + i * kTile * kWeightsStride + k * kTile),
                           kWeightsStride);
  };
  // Up to two tiles of rows the weights stay in registers.
  constexpr int kHeld = kTiles <= 2 ? kTiles : 0;

  // What no sample writes: the diagonal, and the rows that fill the last tile up.
  clear(weights, kRows * kWeightsStride);
  clear(tile + size.inputs * stride, (kRows - size.inputs) * stride);
  for (int64_t b = first_sample(); b < in.samples(); b += sample_step()) {
    T* const grad = row_space + elements_past_16(dout.row(b));
    __syncwarp();  // the last sample's rows are read, and what is zero is zero
    stage(in, b, size, tile, row_space);
    fetch_row(grad, dout.row(b), size.out_width());
    wait_for_chunks();
    __syncwarp();

    for (int p = lane_index(); p < size.pairs(); p += kWarp) {
      const Pair pair = pair_at(p);
      const T weight = grad[size.width + p];
      weights[pair.r * kWeightsStride + pair.c] = weight;
      weights[pair.c * kWeightsStride + pair.r] = weight;
    }
    __syncwarp();
    Left held[kHeld + 1][kHeld + 1];
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
#pragma unroll
      for (int k = 0; k < kHeld; ++k) load_weights(held[i][k], i, k);
    for (int v = 0; v < size.width; v += kTile) {
      Factor<T, wmma::matrix_b, wmma::row_major> right[kTiles];
#pragma unroll
      for (int k = 0; k < kTiles; ++k)
        wmma::load_matrix_sync(right[k], value(tile + k * kTile * stride + v), stride);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        Sums products;
        wmma::fill_fragment(products, 0.0f);
#pragma unroll
        for (int k = 0; k < kTiles; ++k) {
          if constexpr (kHeld > 0) {
            wmma::mma_sync(products, held[i][k], right[k], products);
          } else {
            Left left;
            load_weights(left, i, k);
            wmma::mma_sync(products, left, right[k], products);
          }
        }
        wmma::store_matrix_sync(sums + i * kTile * kSumsStride, products, kSumsStride,
                                wmma::mem_row_major);
      }
      __syncwarp();
      put_columns<T, kRows>(sums, kSumsStride, grad + v, size.inputs, tile + v, stride);
      __syncwarp();
    }
    write_rows(tile, 1, size.width, dbottom.row(b));
    write_rows(tile + stride, size.inputs - 1, size.width, dslots.row(b));
  }
}

template <typename T, typename Inputs>
bool is_for_tiles(const Inputs& in) {
  return is_small(in) && in.width() % kTile == 0 && is_aligned(in);
}

// For t tiles of 16 rows that hold `inputs` vectors, calls body.operator()<t, w>(): w is the width
// where there are kernels for this one, else 0.
template <typename Body>
bool with_tiles(int64_t inputs, int64_t width, Body body) {
  const int64_t tiles = (inputs + kTile - 1) / kTile;
  if (tiles == 1) return body.template operator()<1, 0>();
  if (tiles == 2 && width == 128) return body.template operator()<2, 128>();  // DLRM's
  if (tiles == 2) return body.template operator()<2, 0>();
  if (tiles == 3) return body.template operator()<3, 0>();
  return body.template operator()<4, 0>();
}

template <typename T, typename Inputs>
bool start_forward(cudaStream_t stream, const Inputs& in, Matrix<T> out,
                   const InteractionLaunch& how) {
  if (!is_for_tiles<T>(in)) return false;
  return with_tiles(in.count(), in.width(), [&]<int kTiles, int kWidth>() {
    return start_warps("interaction_forward", stream, how, in.samples(),
                       ForwardMemory<T, kTiles>{SampleSize::of(in)}.bytes(),
                       forward_kernel<T, kTiles, kWidth, Inputs>, in, out);
  });
}

}  // namespace

template <typename T>
bool forward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<T> out,
                      const InteractionLaunch& how) {
  return start_forward<T>(stream, in, out, how);
}

template <typename T>
bool forward_by_warps(cudaStream_t stream, const GatheredInputs<T>& in, Matrix<T> out,
                      const InteractionLaunch& how) {
  return start_forward<T>(stream, in, out, how);
}

template <typename T>
bool backward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<const T> dout,
                       Matrix<T> dbottom, View<T, 3> dslots, const InteractionLaunch& how) {
  if (!is_for_tiles<T>(in) || !is_aligned(dbottom.data()) || !is_aligned(dslots.data()))
    return false;
  return with_tiles(in.count(), in.width(), [&]<int kTiles, int kWidth>() {
    return start_warps("interaction_backward", stream, how, in.samples(),
                       BackwardMemory<T, kTiles>{SampleSize::of(in)}.bytes(),
                       backward_kernel<T, kTiles, kWidth>, in, dout, dbottom, dslots);
  });
}

#define HLITE_INSTANTIATE(T)                                                                \
  template bool forward_by_warps<T>(cudaStream_t, const StoredInputs<T>&, Matrix<T>,        \
                                    const InteractionLaunch&);                              \
  template bool forward_by_warps<T>(cudaStream_t, const GatheredInputs<T>&, Matrix<T>,      \
                                    const InteractionLaunch&);                              \
  template bool backward_by_warps<T>(cudaStream_t, const StoredInputs<T>&, Matrix<const T>, \
                                     Matrix<T>, View<T, 3>, const InteractionLaunch&);
HLITE_INSTANTIATE(bf16)
HLITE_INSTANTIATE(fp16)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops::gpu
