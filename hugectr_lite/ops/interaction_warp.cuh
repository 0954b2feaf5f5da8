// Kernels of the interaction in which a warp works on one sample that fits into shared memory: what
// they share, and the launchers by which interaction.cu starts them.
//
// The vectors of a sample lie in a tile, 16 bytes more than their width apart: eight rows at one
// column then fall into eight different groups of four banks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/chunks.cuh"
#include "hugectr_lite/ops/interaction_inputs.cuh"

namespace hlite::ops::gpu {

// True once the kernel is started; false where no such kernel takes the shape, an address or the
// shared memory. For T = float in interaction_fma.cu, for 16 bits in interaction_tensor_core.cu.
template <typename T>
bool forward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<T> out,
                      const InteractionLaunch& how);
// Of 16 bits.
template <typename T>
bool forward_of_rows_by_warps(cudaStream_t stream, Matrix<const T> bottom,
                              const InteractionRows& rows, View<T, 3> slots, Matrix<T> out,
                              const InteractionLaunch& how);
template <typename T>
bool backward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<const T> dout,
                       Matrix<T> dbottom, View<T, 3> dslots, int32_t* gradient_overflow, bool relu,
                       const InteractionLaunch& how);

constexpr int kMaxWarps = 2;  // of a block: small blocks fill shared memory best
constexpr int kMaxInputs = 64;

// ---- Sizes ----

// Sizes of one sample, in elements.
struct SampleSize {
  int inputs;  // n' = n + 1
  int width;   // V

  template <typename T>
  HLITE_HD static SampleSize of(const StoredInputs<T>& in) {
    return {static_cast<int>(in.count()), static_cast<int>(in.width())};
  }
  HLITE_HD int pairs() const { return inputs * (inputs - 1) / 2; }
  HLITE_HD int out_width() const { return width + pairs() + 1; }
};

template <typename T>
HLITE_HD int tile_stride(int width) {
  return width + kChunk<T>;
}
HLITE_HD inline int multiple_of_16(int bytes) { return (bytes + 15) / 16 * 16; }
// Bytes that hold a row of out or dout at the row's own alignment modulo 16 bytes.
template <typename T>
HLITE_HD int row_bytes(const SampleSize& size) {
  return multiple_of_16((size.out_width() + kChunk<T> - 1) * int{sizeof(T)});
}

template <typename T>
bool is_aligned(const StoredInputs<T>& in) {
  return is_aligned(in.bottom.data()) && is_aligned(in.slots.data());
}

// Sizes below which everything about a sample is an int.
template <typename T>
bool is_small(const StoredInputs<T>& in) {
  return in.count() <= kMaxInputs && in.width() <= (1 << 16);
}

// Starts `kernel` with as many warps to a block as shared memory holds, and as many blocks as the
// device runs at a time, where there is work for so many: a warp goes from sample to sample.
template <typename... Params, typename... Args>
bool start_warps(const char* name, cudaStream_t stream, const InteractionLaunch& how,
                 int64_t samples, int64_t warp_bytes, void (*kernel)(Params...),
                 const Args&... args) {
  const int64_t warps = std::min<int64_t>(kMaxWarps, how.shared_bytes / warp_bytes);
  if (warps == 0) return false;
  LaunchShape shape{.name = name,
                    .block = dim3(static_cast<unsigned>(warps * kWarp)),
                    .shared_bytes = static_cast<size_t>(warps * warp_bytes),
                    .stream = stream};
  shape.grid = grid_for(samples, warps, std::min(how.max_blocks, resident_blocks(shape, kernel)));
  launch(shape, kernel, args...);
  return true;
}

// ---- In kernels ----

__device__ inline int64_t first_sample() {
  return int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
}
__device__ inline int64_t sample_step() { return int64_t{gridDim.x} * (blockDim.x / kWarp); }
// The running warp's part of the block's shared memory.
__device__ inline unsigned char* warp_memory(int bytes) {
  return dynamic_shared<unsigned char>() + static_cast<int>(threadIdx.x / kWarp) * bytes;
}

// The entries of a matrix in turns: lane l begins at the l-th and goes on by 32, without divisions.
class Turns {
 public:
  __device__ Turns(int rows, int columns)
      : index(lane_index()),
        row(index / columns),
        column(index % columns),
        end_(rows * columns),
        columns_(columns),
        row_step_(kWarp / columns),
        column_step_(kWarp % columns) {}
  __device__ bool left() const { return index < end_; }
  __device__ void next() {
    index += kWarp;
    row += row_step_;
    column += column_step_;
    if (column >= columns_) {
      column -= columns_;
      ++row;
    }
  }
  int index, row, column;

 private:
  int end_, columns_, row_step_, column_step_;
};

// Starts to copy [rows,V] into a tile, and writes it back. A tile's row is one chunk longer.
template <typename T>
__device__ inline void stage_rows(const T* from, int rows, int width, T* tile) {
  for (Turns at(rows, width / kChunk<T>); at.left(); at.next())
    copy_chunk_async(reinterpret_cast<Chunk*>(tile) + at.index + at.row,
                     reinterpret_cast<const Chunk*>(from) + at.index);
}
// see(chunk) gets each of the chunks that the lane has written.
template <typename T, typename See>
__device__ inline void write_rows(const T* tile, int rows, int width, T* to, See see) {
  for (Turns at(rows, width / kChunk<T>); at.left(); at.next()) {
    const Chunk chunk = reinterpret_cast<const Chunk*>(tile)[at.index + at.row];
    reinterpret_cast<Chunk*>(to)[at.index] = chunk;
    see(chunk);
  }
}
template <typename T>
__device__ inline void write_rows(const T* tile, int rows, int width, T* to) {
  write_rows(tile, rows, width, to, [](const Chunk&) {});
}

// Starts to fill rows [0, n') of the tile with the sample's vectors.
template <typename T>
__device__ inline void stage(const StoredInputs<T>& in, int64_t b, const SampleSize& size,
                             T* tile) {
  stage_rows(in.bottom.row(b), 1, size.width, tile);
  stage_rows(in.slots.row(b), size.inputs - 1, size.width, tile + tile_stride<T>(size.width));
}

// Elements of p's 16 bytes that lie before p.
template <typename T>
__device__ inline int elements_past_16(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T));
}

// n elements from or to a row at any address: those in whole 16 bytes by `chunk(to, from)`, the few
// before and after one by one. Both addresses have the same remainder modulo 16.
template <typename T, typename CopyChunk>
__device__ inline void copy_row(T* to, const T* from, int n, CopyChunk chunk) {
  const int missing = (kChunk<T> - elements_past_16(from)) % kChunk<T>;
  const int before = missing < n ? missing : n;
  const int chunks = (n - before) / kChunk<T>;
  const int after = before + chunks * kChunk<T>;
#pragma unroll 1
  for (int i = lane_index(); i < before; i += kWarp) to[i] = from[i];
  for (int i = lane_index(); i < chunks; i += kWarp)
    chunk(to + before + i * kChunk<T>, from + before + i * kChunk<T>);
#pragma unroll 1
  for (int i = after + lane_index(); i < n; i += kWarp) to[i] = from[i];
}
template <typename T>
__device__ inline void fetch_row(T* to, const T* from, int n) {
  copy_row(to, from, n, [](T* t, const T* f) { copy_chunk_async(t, f); });
}
template <typename T>
__device__ inline void write_row(T* to, const T* from, int n) {
  copy_row(to, from, n, [](T* t, const T* f) {
    *reinterpret_cast<Chunk*>(t) = *reinterpret_cast<const Chunk*>(f);
  });
}

}  // namespace hlite::ops::gpu
