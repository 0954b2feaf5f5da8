// What gathers, scatters and converts rows: kernels in which a thread has a piece of a row
// (row_pieces.cuh) and several rows in flight.
#pragma once

#include "embedding/item_threads.cuh"
#include "embedding/row_pieces.cuh"

namespace hlite::embedding::gpu {

// Moves pieces of rows [0, n): `lanes` lanes share a row, and each has several rows in flight, whose
// place in memory is not known beforehand. load(row, column) fetches what store(row, column, item)
// then writes.
template <int kPiece, typename Load, typename Store>
__device__ inline void move_pieces(int64_t n, int64_t width, int lanes, const Load& load,
                                   const Store& store) {
  constexpr int kInFlight = 4;
  const int64_t rows_at_once = grid_threads() / lanes;
  for (int64_t column = (threadIdx.x & (lanes - 1u)) * kPiece; column < width;
       column += lanes * kPiece)
    for (int64_t row = global_thread() / lanes; row < n; row += rows_at_once * kInFlight) {
      decltype(load(row, column)) items[kInFlight] = {};
#pragma unroll
      for (int i = 0; i < kInFlight; ++i)
        if (row + i * rows_at_once < n) items[i] = load(row + i * rows_at_once, column);
#pragma unroll
      for (int i = 0; i < kInFlight; ++i)
        if (row + i * rows_at_once < n) store(row + i * rows_at_once, column, items[i]);
    }
}

// Launches kernels of move_pieces() by start(shape, lanes), a template of the piece. At most a wave
// of blocks on an H200: the host does not know how many of the rows there are.
template <typename Start>
void move_rows(const char* name, int64_t rows, int64_t width, int piece, cudaStream_t stream,
               const Start& start) {
  constexpr int64_t kMaxBlocks = 132 * 8;
  const int lanes = lanes_for(width, piece);
  const LaunchShape shape = item_shape(name, rows * lanes, stream, kMaxBlocks);
  with_piece(piece, [&]<int kPiece>() { start.template operator()<kPiece>(shape, lanes); });
}

}  // namespace hlite::embedding::gpu
