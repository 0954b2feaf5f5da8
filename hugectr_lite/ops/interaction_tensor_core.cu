// The dot interaction of bf16 and fp16 on tensor cores, for up to 64 vectors whose width is a
// multiple of 16. (interaction.cu has what takes any shape.)
//
// A warp works on one sample at a time: it stages the sample's n' vectors X [n',V] in shared memory
// and multiplies tiles of 16 rows (the last row stands for those that are missing) with float sums:
//
//   forward   the tiles of X X^T on and below the diagonal. A tile of X is loaded once, into
//             registers that are a factor A, and two factors B. The lower triangle, rounded to T,
//             goes from the sums to the output row, between the bottom vector and the zero. The
//             next sample's vectors are on their way meanwhile.
//   backward  S [n',n'] from dout, symmetric with a zero diagonal, into registers; then S X, 16
//             columns at a time, over the columns of X that it was made of. These leave no room for
//             the next sample's vectors, which come into the L2 cache meanwhile. Where the bottom
//             vector came out of a ReLU, it decides what passes of its own gradient
//
// Forward of vectors that are rows of a table gathers these instead: it reads floats 16 bytes a
// lane, kLoads at a time, and writes them, rounded, into the tile and, for backward, into slots.
//
// What stands for missing rows meets nothing that is written in forward, and zeros in backward.
// Memory is read and written in 16 bytes a lane, each byte once.
//
// One sample of 26 slots of 128 (n' = 27, 32 with the filling), 65,536 samples, an H200 (4.8 TB/s,
// about 4.0 of them reachable; about 790 TFLOP/s):
//
//                       bytes                        us      FLOP (of use)           us
//   forward             27 * 256 + 960 = 7,872       129     196,608 (89,856)        16
//   backward            960 + 54 * 256 = 14,784      242     262,144 (179,712)       22
//   forward of rows     26 * (512 + 256 + 4)         340     196,608 (89,856)        16
//                         + 256 + 960 = 21,288
//
// (340 us if every row came from memory. With Criteo's skew most come from the L2 cache, and memory
// takes 160. But all bytes pass through that cache, at about 7.3 TB/s: 190.)
//
// So memory bounds all of them. What must not get in its way: 4.0 TB/s are 30 bytes a nanosecond
// and multiprocessor, 460 cycles for a sample's forward, 860 for its backward.
// Of these shared memory takes about 180 and 360, and instructions, four a cycle, 180 and 300. At a
// latency of 800 ns 24 KiB must be on their way at any time. A block of two warps has 16,640 bytes
// of shared memory; there are 24 resident warps of forward (by registers) and 26 of backward (by
// shared memory; on an A100 18 of both), each with a tile of its own of 6.9 KB to load and mostly
// wait for: more in a second tile each would cost the warps that it feeds.
#include "hugectr_lite/core/l2_cache.cuh"
#include "hugectr_lite/core/tensor_core.cuh"
#include "hugectr_lite/ops/interaction_warp.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kTile = 16, kHalf = 8;

// Kernels for one width, where it is not 0: what depends on it is computed by the compiler, which
// halves the instructions.
template <int kWidth, typename T>
HLITE_HD SampleSize size_of(const StoredInputs<T>& in) {
  SampleSize size = SampleSize::of(in);
  if constexpr (kWidth != 0) size.width = kWidth;
  return size;
}

// Resident blocks that registers allow: about as many as shared memory does.
template <int kTiles>
constexpr int kMinBlocks = kTiles <= 2 ? 12 : 6;

// Shared memory of a warp: the vectors, and a row of out or dout.
template <typename T>
struct WarpMemory {
  SampleSize size;

  HLITE_HD int tile_bytes() const {
    return size.inputs * tile_stride<T>(size.width) * int{sizeof(T)};
  }
  HLITE_HD int bytes() const { return tile_bytes() + row_bytes<T>(size); }
  // With numbers of the rows that the vectors are, which follow.
  HLITE_HD int bytes_with_numbers() const {
    return bytes() + multiple_of_16((size.inputs - 1) * int{sizeof(uint32_t)});
  }
};

// The running lane's place in registers that tensor cores work on.
struct LanePlace {
  int row, column;  // of a matrix of 8 x 8: the first of the two elements that a register holds
  __device__ static LanePlace here() { return {lane_index() / 4, lane_index() % 4 * 2}; }
};

// The lane's arguments of load_matrices() and load_transposed_matrices() for 16 rows from 16 i on
// at column 0: the four matrices of a factor A. There are no rows to fill the last tile up; the
// last one stands for them.
template <typename T>
__device__ inline const T* matrix_row(const T* tile, const SampleSize& size, int i) {
  const int row = i * kTile + lane_index() % kTile, column = lane_index() / kTile * kHalf;
  const int known = row < size.inputs ? row : size.inputs - 1;
  return tile + known * tile_stride<T>(size.width) + column;
}

// Numbers c(c-1)/2 that pairs (0, c) have.
__device__ inline int pairs_below(int c) { return c * (c - 1) / 2; }

// Adds the tiles of X X^T on and below the diagonal to sums. rows: matrix_row() of each tile of X.
template <typename T, int kTiles, int kWidth>
__device__ inline void multiply_by_itself(const T* const (&rows)[kTiles], int width,
                                          float (&sums)[kTiles][2 * kTiles][4]) {
#pragma unroll kWidth == 0 ? 2 : kWidth / kTile
  for (int v = 0; v < width; v += kTile) {
    uint32_t x[kTiles][4];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) load_matrices(x[i], rows[i] + v);
      // A factor A for 16 rows of the result is two factors B for 8 columns each.
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int j = 0; j < 2 * i + 2; ++j)
        multiply_add<T>(sums[i][j], x[i], x[j / 2][j % 2], x[j / 2][j % 2 + 2]);
  }
}

// Writes the pairs (r, c), r < c, of one sample: the 8 x 8 products below the diagonal, or on it.
template <typename T, int kTiles>
__device__ inline void put_pairs(const float (&sums)[kTiles][2 * kTiles][4], int inputs,
                                 const LanePlace& place, T* to) {
#pragma unroll
  for (int p = 0; p < 2 * kTiles; ++p) {
    const int c = p * kHalf + place.row;
    T* const pairs = to + pairs_below(c);
    if (c >= inputs) continue;
#pragma unroll
    for (int q = 0; q <= p; ++q)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int r = q * kHalf + place.column + e;
        if (q < p || r < c) pairs[r] = from_float<T>(sums[p / 2][q][p % 2 * 2 + e]);
      }
  }
}

// Writes the output row of one sample. `row`: room for it, which begins with the bottom vector.
template <typename T, int kTiles>
__device__ inline void put_row(const float (&sums)[kTiles][2 * kTiles][4], const SampleSize& size,
                               const LanePlace& place, T* row, T* to) {
  put_pairs<T, kTiles>(sums, size.inputs, place, row + size.width);
  if (lane_index() == 0) row[size.out_width() - 1] = from_float<T>(0.0f);
  __syncwarp();
  write_row(to, row, size.out_width());
}

template <typename T, int kTiles, int kWidth>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kMinBlocks<kTiles>)
    forward_kernel(StoredInputs<T> in, Matrix<T> out) {
  const SampleSize size = size_of<kWidth>(in);
  const WarpMemory<T> memory{size};
  const LanePlace place = LanePlace::here();
  unsigned char* const mine = warp_memory(memory.bytes());
  T* const tile = reinterpret_cast<T*>(mine);
  T* const row_space = reinterpret_cast<T*>(mine + memory.tile_bytes());
  const T* rows[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) rows[i] = matrix_row(tile, size, i);

  int64_t b = first_sample();
  if (b < in.samples()) stage(in, b, size, tile);
  for (; b < in.samples(); b += sample_step()) {
    const int64_t next = b + sample_step();
    T* const to = out.row(b);
    T* const row = row_space + elements_past_16(to);
    wait_for_chunks();
    __syncwarp();  // the vectors are there, and the last sample's row is read

    for (int v = lane_index(); v < size.width; v += kWarp) row[v] = tile[v];
    float sums[kTiles][2 * kTiles][4] = {};
    multiply_by_itself<T, kTiles, kWidth>(rows, size.width, sums);
    __syncwarp();  // the vectors are read
    if (next < in.samples()) stage(in, next, size, tile);
    put_row<T, kTiles>(sums, size, place, row, to);
  }
}

// Pieces of rows, of 16 bytes, that are on their way to a lane at a time.
constexpr int kLoads = 9;

// Starts to copy the numbers of the sample's rows.
__device__ inline void stage_numbers(const InteractionRows& rows, int64_t b, int count,
                                     uint32_t* to) {
  const uint32_t* const from = rows.numbers.row(b) + rows.first_column;
#pragma unroll 1
  for (int i = lane_index(); i < count; i += kWarp)
    __pipeline_memcpy_async(to + i, from + i, sizeof(uint32_t));
}

// Copies rows, rounded to T, into rows [0, count) of the tile.
template <typename T>
__device__ inline void gather(const InteractionRows& rows, const uint32_t* numbers, int count,
                              int width, T* tile) {
  const auto known = static_cast<uint32_t>(rows.table.dim(0));
  for (Turns at(count, width / kChunk<float>); at.left();) {
    Floats pieces[kLoads];
    Turns ahead = at;
#pragma unroll
    for (int u = 0; u < kLoads; ++u, ahead.next()) {
      const uint32_t number = ahead.left() ? numbers[ahead.row] : known;
      pieces[u] = {};
      if (number < known)
        pieces[u] = reinterpret_cast<const Floats*>(rows.table.data() +
                                                    int64_t{number} * width)[ahead.column];
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u, at.next()) {
      if (!at.left()) break;
      const float* const four = pieces[u].at;
      *reinterpret_cast<Four*>(tile + at.row * tile_stride<T>(width) + at.column * kChunk<float>) =
          Four{{pack_pair<T>(four[0], four[1]), pack_pair<T>(four[2], four[3])}};
    }
  }
}

// As forward_kernel; but vectors come when they are multiplied, and only the numbers of the next
// sample's rows, which other reads wait for, and its bottom vector are on their way meanwhile.
template <typename T, int kTiles, int kWidth>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kMinBlocks<kTiles>)
    forward_of_rows_kernel(Matrix<const T> bottom, InteractionRows of, View<T, 3> slots,
                           Matrix<T> out) {
  const SampleSize size = size_of<kWidth>(StoredInputs<T>{bottom, slots});
  const WarpMemory<T> memory{size};
  const LanePlace place = LanePlace::here();
  unsigned char* const mine = warp_memory(memory.bytes_with_numbers());
  T* const tile = reinterpret_cast<T*>(mine);
  T* const row_space = reinterpret_cast<T*>(mine + memory.tile_bytes());
  uint32_t* const numbers = reinterpret_cast<uint32_t*>(mine + memory.bytes());
  const T* rows[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) rows[i] = matrix_row(tile, size, i);

  const int64_t samples = bottom.dim(0);
  int64_t b = first_sample();
  if (b < samples) {
    stage_numbers(of, b, size.inputs - 1, numbers);
    stage_rows(bottom.row(b), 1, size.width, tile);
  }
  for (; b < samples; b += sample_step()) {
    const int64_t next = b + sample_step();
    T* const to = out.row(b);
    T* const row = row_space + elements_past_16(to);
    wait_for_chunks();
    __syncwarp();  // numbers and bottom vector are there, and the last sample's row is read
    gather(of, numbers, size.inputs - 1, size.width, tile + tile_stride<T>(size.width));
    __syncwarp();  // the vectors are there, and the numbers are read
    if (next < samples) stage_numbers(of, next, size.inputs - 1, numbers);
    for (Turns at(size.inputs - 1, size.width / kChunk<T>); at.left(); at.next())
      store_passing_pack(slots.row(b) + at.index * kChunk<T>,
                         load_pack<kChunk<T>>(tile + tile_stride<T>(size.width) +
                                              (at.index + at.row) * kChunk<T>));

    for (int v = lane_index(); v < size.width; v += kWarp) row[v] = tile[v];
    float sums[kTiles][2 * kTiles][4] = {};
    multiply_by_itself<T, kTiles, kWidth>(rows, size.width, sums);
    __syncwarp();  // the vectors are read
    if (next < samples) stage_rows(bottom.row(next), 1, size.width, tile);
    put_row<T, kTiles>(sums, size, place, row, to);
  }
}

// The symmetric S [n',n'] of one sample, from dout's pairs, as factors A: s[i][k] for rows from 16
// i and columns from 16 k on. Its columns past n' are zero, its rows past n' anything finite.
template <typename T, int kTiles>
__device__ inline void load_weights(const T* pairs, int inputs, const LanePlace& place,
                                    uint32_t (&s)[kTiles][kTiles][4]) {
#pragma unroll
  for (int p = 0; p < 2 * kTiles; ++p)
#pragma unroll
    for (int q = 0; q < 2 * kTiles; ++q) {
      uint32_t word = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = p * kHalf + place.row, column = q * kHalf + place.column + e;
        const bool below = p > q || (p == q && row > column);
        const int c = below ? row : column, r = below ? column : row;
        if (c < inputs && (p != q || c != r))
          word |= static_cast<uint32_t>(pairs[pairs_below(c) + r].bits) << (16 * e);
      }
      s[p / 2][q / 2][p % 2 + q % 2 * 2] = word;
    }
}

// Finds out if a 16-bit number is not finite, for two at a time: gathers bits, whose highest ones
// say so.
template <typename T>
constexpr uint32_t kExponentToSign = 0;  // carries an exponent of all ones into the sign
template <>
constexpr uint32_t kExponentToSign<bf16> = 0x00800080;
template <>
constexpr uint32_t kExponentToSign<fp16> = 0x04000400;
template <typename T>
class NonFiniteFlag {
 public:
  __device__ void see(const Chunk& chunk) {
#pragma unroll
    for (const uint32_t pair : chunk.words) seen_ |= (pair & 0x7fff7fffu) + kExponentToSign<T>;
  }
  __device__ bool found() const { return (seen_ & 0x80008000u) != 0; }

 private:
  uint32_t seen_ = 0;
};

// All bits of those of two numbers that are positive.
template <typename T>
__device__ inline uint32_t positive(uint32_t two) {
  const T first{static_cast<uint16_t>(two)}, second{static_cast<uint16_t>(two >> 16)};
  return (to_float(first) > 0 ? 0x0000ffffu : 0u) | (to_float(second) > 0 ? 0xffff0000u : 0u);
}

// Adds 16 columns of S X to sums, those from v on. rows: matrix_row() of each tile of X.
template <typename T, int kTiles>
__device__ inline void multiply_columns(const uint32_t (&s)[kTiles][kTiles][4],
                                        const T* const (&rows)[kTiles], int v,
                                        float (&sums)[kTiles][2][4]) {
  uint32_t x[kTiles][4];
#pragma unroll
  for (int k = 0; k < kTiles; ++k) load_transposed_matrices(x[k], rows[k] + v);
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int k = 0; k < kTiles; ++k)
        multiply_add<T>(sums[i][j], s[i][k], x[k][j * 2], x[k][j * 2 + 1]);
}

template <typename T, int kTiles, int kWidth>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kMinBlocks<kTiles>)
    backward_kernel(StoredInputs<T> in, Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                    int* gradient_overflow, bool relu) {
  const SampleSize size = size_of<kWidth>(in);
  const WarpMemory<T> memory{size};
  const LanePlace place = LanePlace::here();
  const int stride = tile_stride<T>(size.width);
  unsigned char* const mine = warp_memory(memory.bytes());
  T* const tile = reinterpret_cast<T*>(mine);
  T* const row_space = reinterpret_cast<T*>(mine + memory.tile_bytes());
  const T* rows[kTiles];
#pragma unroll
  for (int k = 0; k < kTiles; ++k) rows[k] = matrix_row(tile, size, k);
  T* const result = tile + place.row * stride + place.column;  // of the lane, in the first 8 rows
  NonFiniteFlag<T> non_finite;

  for (int64_t b = first_sample(); b < in.samples(); b += sample_step()) {
    T* const grad = row_space + elements_past_16(dout.row(b));
    __syncwarp();  // the last sample's rows are read
    stage(in, b, size, tile);
    fetch_row(grad, dout.row(b), size.out_width());
    wait_for_chunks();
    __syncwarp();
    if (const int64_t next = b + sample_step(); next < in.samples()) {
      prefetch(in.bottom.row(next), size.width * int{sizeof(T)});
      prefetch(in.slots.row(next), (size.inputs - 1) * size.width * int{sizeof(T)});
      prefetch(dout.row(next), size.out_width() * int{sizeof(T)});
    }

    uint32_t s[kTiles][kTiles][4];
    load_weights(grad + size.width, size.inputs, place, s);
#pragma unroll 1
    for (int v = 0; v < size.width; v += kTile) {
      float sums[kTiles][2][4] = {};
      // Bottom's own part of the gradient, which row 0 begins with.
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const T g = grad[v + place.column + e / 2 * kHalf + e % 2];
        sums[0][e / 2][e % 2] = place.row == 0 ? to_float(g) : 0.0f;
      }
      multiply_columns<T, kTiles>(s, rows, v, sums);
      __syncwarp();  // these columns are read
#pragma unroll
      for (int p = 0; p < 2 * kTiles; ++p) {
        if (p * kHalf + place.row >= size.inputs) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float* const two = &sums[p / 2][j][p % 2 * 2];
          Two* const to = reinterpret_cast<Two*>(result + p * kHalf * stride + v + j * kHalf);
          uint32_t word = pack_pair<T>(two[0], two[1]);
          if (p == 0 && relu && place.row == 0) word &= positive<T>(to->word);
          *to = Two{word};
        }
      }
    }
    __syncwarp();
    write_rows(tile, 1, size.width, dbottom.row(b));
    write_rows(tile + stride, size.inputs - 1, size.width, dslots.row(b),
               [&](const Chunk& chunk) { non_finite.see(chunk); });
  }
  if (gradient_overflow != nullptr && non_finite.found()) atomicExch(gradient_overflow, 1);
}

template <typename T>
bool is_for_tiles(const StoredInputs<T>& in) {
  return is_small(in) && in.width() % kTile == 0 && is_aligned(in);
}

// Calls body.operator()<t, w>() for t tiles of 16 rows that hold `inputs` vectors: w is the width
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

}  // namespace

template <typename T>
bool forward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<T> out,
                      const InteractionLaunch& how) {
  if (!is_for_tiles<T>(in)) return false;
  return with_tiles(in.count(), in.width(), [&]<int kTiles, int kWidth>() {
    return start_warps("interaction_forward", stream, how, in.samples(),
                       WarpMemory<T>{SampleSize::of(in)}.bytes(), forward_kernel<T, kTiles, kWidth>,
                       in, out);
  });
}

template <typename T>
bool forward_of_rows_by_warps(cudaStream_t stream, Matrix<const T> bottom,
                              const InteractionRows& rows, View<T, 3> slots, Matrix<T> out,
                              const InteractionLaunch& how) {
  const StoredInputs<T> in{bottom, slots};
  if (!is_for_tiles<T>(in) || !is_aligned(rows.table.data())) return false;
  return with_tiles(in.count(), in.width(), [&]<int kTiles, int kWidth>() {
    return start_warps("interaction_forward_of_rows", stream, how, in.samples(),
                       WarpMemory<T>{SampleSize::of(in)}.bytes_with_numbers(),
                       forward_of_rows_kernel<T, kTiles, kWidth>, bottom, rows, slots, out);
  });
}

template <typename T>
bool backward_by_warps(cudaStream_t stream, const StoredInputs<T>& in, Matrix<const T> dout,
                       Matrix<T> dbottom, View<T, 3> dslots, int32_t* gradient_overflow, bool relu,
                       const InteractionLaunch& how) {
  if (!is_for_tiles<T>(in) || !is_aligned(dbottom.data()) || !is_aligned(dslots.data()))
    return false;
  return with_tiles(in.count(), in.width(), [&]<int kTiles, int kWidth>() {
    return start_warps("interaction_backward", stream, how, in.samples(),
                       WarpMemory<T>{SampleSize::of(in)}.bytes(),
                       backward_kernel<T, kTiles, kWidth>, in, dout, dbottom, dslots,
                       gradient_overflow, relu);
  });
}

#define HLITE_INSTANTIATE(T)                                                                       \
  template bool forward_by_warps<T>(cudaStream_t, const StoredInputs<T>&, Matrix<T>,               \
                                    const InteractionLaunch&);                                     \
  template bool forward_of_rows_by_warps<T>(cudaStream_t, Matrix<const T>, const InteractionRows&, \
                                            View<T, 3>, Matrix<T>, const InteractionLaunch&);      \
  template bool backward_by_warps<T>(cudaStream_t, const StoredInputs<T>&, Matrix<const T>,        \
                                     Matrix<T>, View<T, 3>, int32_t*, bool,                        \
                                     const InteractionLaunch&);
HLITE_INSTANTIATE(bf16)
HLITE_INSTANTIATE(fp16)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops::gpu
