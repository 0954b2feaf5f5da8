// Kernels of HSTU's attention. A block has some rows of one head of one sample, its own, and goes
// through the rows of the other side, the others, some at a time in shared memory. Each kernel sums
// over the others that its own rows meet, by weights that it computes from scores:
//
//   kernel     own      others   score weights   value weights
//   y          q        k, v                     y  += silu(s) v
//   dq         q, dy    k, v     dq += ds k
//   dk and dv  k, v     q, dy    dk += ds q      dv += silu(s) dy
//
// No sum is shared between blocks, so none depends on their order. Others none of which an own row
// sees (above the diagonal, out of the window) are skipped, and the mask is looked at only where
// some are seen and some are not. Rows of padding are not read.
//
// In 16 bits, with widths of whole 16s: on tensor cores, where a warp has 16 or 32 own rows, as
// many as its registers have room for sums of, and the others' next rows are on their way
// meanwhile. A score's place among the sums of one product is its place in the factor of the next,
// so weights never leave registers. Anything else is added up by threads, in floats: kPiece x
// kPiece scores each.
#include "hugectr_lite/ops/hstu_attention.h"

#include <algorithm>
#include <cmath>

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/tensor_core.cuh"
#include "hugectr_lite/ops/chunks.cuh"

namespace hlite::ops::gpu {
namespace {

// Whose rows are a block's own, and which sums they have.
template <bool keys, bool scores, bool values>
struct Sums {
  static constexpr bool kOfKeys = keys, kOfScores = scores, kOfValues = values;
  static constexpr int kCount = int{scores} + int{values};
  static constexpr bool kIsSplit = keys && kCount == 1;
};
// The widest heads of whose keys a kernel makes both sums.
constexpr int kMostTogether = 128;
using SumsOfY = Sums<false, false, true>;
using SumsOfDq = Sums<false, true, false>;
using SumsOfDkDv = Sums<true, true, true>;
using SumsOfDk = Sums<true, true, false>;
using SumsOfDv = Sums<true, false, true>;

template <typename T>
struct HstuWork {
  HstuTensors<T> in;
  Matrix<const T> dy = {};  // backward's
  Matrix<T> y = {};         // forward's
  Matrix<T> duvqk = {};     // backward's
};

// Some columns of a sample's rows.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride;
  __device__ HeadRows(Matrix<T> x, int64_t row, int64_t column)
      : data(x.data() + row * x.dim(1) + column), stride(x.dim(1)) {}
  __device__ T* at(int64_t i) const { return data + i * stride; }
};

__device__ inline int least(int a, int b) { return a < b ? a : b; }

enum class Seen { kNone, kSome, kAll };

// What a block works on: own rows from `first` on of one head of a sample.
template <typename T, typename S>
class HstuBlock {
 public:
  // `own_rows`: of a block.
  __device__ HstuBlock(const HstuWork<T>& work, int own_rows) : work_(work) {
    const auto heads = static_cast<unsigned>(work.in.heads),
               all = static_cast<unsigned>(work.in.lengths.size()) * heads;
    const auto tile = static_cast<int>(blockIdx.x / all), tiles = static_cast<int>(gridDim.x / all);
    const unsigned sample = blockIdx.x % all / heads;
    head_ = blockIdx.x % heads;
    // Rows that see all before them are most at the end, and keys that all after them see in front:
    // what takes long is first.
    first = (S::kOfKeys ? tile : tiles - 1 - tile) * own_rows;
    row_ = work.in.first_row(sample);
    rows =
        static_cast<int>(work.in.offsets.data() ? work.in.first_row(sample + 1) - row_ : work.in.n);
    length = static_cast<int>(work.in.length(sample));
    const auto at_most_all = [&](int64_t x) { return x < rows ? static_cast<int>(x) : rows; };
    window_ = at_most_all(work.in.mask.window);
    context_ = at_most_all(work.in.mask.context);
    shared_ = length - at_most_all(work.in.mask.candidates);
  }

  int first, length, rows;  // of the sample, valid ones and all

  // Scores are products of own() and others(), and dy . v of the other two.
  [[nodiscard]] __device__ HeadRows<const T> own() const { return S::kOfKeys ? k() : q(); }
  [[nodiscard]] __device__ HeadRows<const T> own_values() const { return S::kOfKeys ? v() : dy(); }
  [[nodiscard]] __device__ HeadRows<const T> others() const { return S::kOfKeys ? q() : k(); }
  [[nodiscard]] __device__ HeadRows<const T> other_values() const {
    return S::kOfKeys ? dy() : v();
  }
  [[nodiscard]] __device__ HeadRows<T> score_sums() const {
    return {work_.duvqk, row_, S::kOfKeys ? work_.in.k_column(head_) : work_.in.q_column(head_)};
  }
  [[nodiscard]] __device__ HeadRows<T> value_sums() const {
    if (S::kOfKeys) return {work_.duvqk, row_, work_.in.v_column(head_)};
    return {work_.y, row_, head_ * work_.in.hidden_dim};
  }

  [[nodiscard]] __device__ bool sees(int own, int other) const {
    return S::kOfKeys ? work_.in.mask.sees(other, own, length)
                      : work_.in.mask.sees(own, other, length);
  }
  // How many of the pairs of own rows [own, own_end) with [other, other_end) are seen. Padding,
  // whose vectors are zeros here, does not count.
  [[nodiscard]] __device__ Seen seen(int own, int own_end, int other, int other_end) const {
    const int i = S::kOfKeys ? other : own, j = S::kOfKeys ? own : other;
    const int i_end = least(S::kOfKeys ? other_end : own_end, length);
    const int j_end = least(S::kOfKeys ? own_end : other_end, length), last = least(j_end, shared_);
    if (i >= i_end || j >= j_end) return Seen::kNone;
    const bool meet = i < j_end && j < i_end, all_shared = j_end <= shared_;
    if (all_shared && (i_end <= context_ || j_end <= context_)) return Seen::kAll;
    const auto is_near = [&](int distance) { return window_ == 0 || distance < window_; };
    if (all_shared && (!work_.in.mask.causal || last - 1 <= i) && is_near(i_end - 1 - j) &&
        is_near(last - 1 - i))
      return Seen::kAll;
    if (meet) return Seen::kSome;
    if (j >= shared_) return Seen::kNone;
    if (i < context_ || j < context_) return Seen::kSome;
    const bool any =
        last <= i ? is_near(i - last + 1) : !work_.in.mask.causal && is_near(j - i_end + 1);
    return any ? Seen::kSome : Seen::kNone;
  }
  // The first of the others from `from` on, `count` at a time, that own rows meet; or `length`.
  [[nodiscard]] __device__ int next(int from, int count, int own_rows) const {
    while (from < length && seen(first, first + own_rows, from, from + count) == Seen::kNone)
      from += count;
    return from < length ? from : length;
  }

 private:
  [[nodiscard]] __device__ HeadRows<const T> q() const {
    return {work_.in.uvqk, row_, work_.in.q_column(head_)};
  }
  [[nodiscard]] __device__ HeadRows<const T> k() const {
    return {work_.in.uvqk, row_, work_.in.k_column(head_)};
  }
  [[nodiscard]] __device__ HeadRows<const T> v() const {
    return {work_.in.uvqk, row_, work_.in.v_column(head_)};
  }
  [[nodiscard]] __device__ HeadRows<const T> dy() const {
    return {work_.dy, row_, head_ * work_.in.hidden_dim};
  }

  const HstuWork<T>& work_;
  int64_t row_, head_;
  int window_, context_, shared_;
};

// By the device's short ways where results of 16 bits are rounded by more than these are off.
template <typename T>
__device__ inline float sigmoid_of(float x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 2) return __fdividef(1.0f, 1.0f + __expf(-x));
#endif
  return 1 / (1 + std::exp(-x));
}

// From a score and dy . v, the weights of values and of the others: silu(s) and ds, but for their
// common factors.
template <typename T>
__device__ inline void weigh_pair(float scale, float& score, float& inner) {
  const float s = scale * score, g = sigmoid_of<T>(s);
  score = s * g;
  inner *= g * (1 + s * (1 - g));
}

__device__ inline float score_scale_of(int64_t attention_dim) {
  return 1 / std::sqrt(static_cast<float>(attention_dim));
}

// ---- On tensor cores ----

constexpr int kTile = 16;
constexpr int kStep = 32;  // columns that are zeros beyond a head's, to a whole number of these
constexpr int kMostWarps = 4;

// Sizes for heads of up to kWidth columns.
template <int kWidth, typename S>
struct TileSizes {
  static constexpr int kBlocks = S::kCount * kWidth <= 128 ? 2 : 1;  // of 16 own rows, of a warp
  static constexpr int kOwnOfWarp = kBlocks * kTile;
  // Others that are staged, and that are worked on, at a time.
  static constexpr int kStaged = kWidth <= 128 ? 32 : 16;
  static constexpr int kOthers = S::kCount == 2 && kBlocks == 2 && kWidth > 32 ? 16 : kStaged;
  static constexpr int kStride = kWidth + 8;  // eight rows lie in different groups of banks
  // Resident blocks that registers suffice for.
  static constexpr int kBusy = kWidth / 32 + int{S::kOfScores} + S::kCount;
  static constexpr int kMinBlocks = kBusy < 4 ? 6 - kBusy : 2;
  // Elements of shared memory: own rows, and two times the others'.
  static int elements(int own) {
    return (own * (S::kOfScores ? 2 : 1) + 2 * 2 * kStaged) * kStride;
  }
};

// Starts to copy `count` rows from `first` on into a tile; zeros beyond the sample's length.
template <int kWidth, int kStride, typename T>
__device__ inline void stage(const HeadRows<const T>& from, int first, int count, int length,
                             int width, T* to) {
  constexpr int kRowChunks = kWidth / kChunk<T>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int column = thread % kRowChunks * kChunk<T>;
  if (column >= (width + kStep - 1) / kStep * kStep) return;
  for (int r = thread / kRowChunks; r < count; r += threads / kRowChunks) {
    T* const at = to + r * kStride + column;
    if (first + r < length && column < width)
      copy_chunk_async(at, from.at(first + r) + column);
    else
      *reinterpret_cast<Chunk*>(at) = Chunk{};
  }
}

// sums += own others^T. Both: the lane's arguments of load_matrices() for the first 16 rows.
template <typename T, typename Sizes, int kWidth>
__device__ inline void add_scores(const T* own, const T* others, int width,
                                  float (&sums)[Sizes::kBlocks][Sizes::kOthers / 8][4]) {
#pragma unroll
  for (int step = 0; step < kWidth; step += kStep) {
    if (step > 0 && step >= width) continue;
#pragma unroll
    for (int c = step; c < step + kStep; c += kTile) {
      uint32_t x[Sizes::kBlocks][4];
#pragma unroll
      for (int b = 0; b < Sizes::kBlocks; ++b)
        load_matrices(x[b], own + b * kTile * Sizes::kStride + c);
#pragma unroll
      for (int j = 0; j < Sizes::kOthers / kTile; ++j) {
        uint32_t z[4];
        load_matrices(z, others + j * kTile * Sizes::kStride + c);
#pragma unroll
        for (int b = 0; b < Sizes::kBlocks; ++b) {
          multiply_add<T>(sums[b][2 * j], x[b], z[0], z[2]);
          multiply_add<T>(sums[b][2 * j + 1], x[b], z[1], z[3]);
        }
      }
    }
  }
}

// sums += weights others.
template <typename T, typename Sizes, int kWidth>
__device__ inline void add_weighted(const float (&weights)[Sizes::kBlocks][Sizes::kOthers / 8][4],
                                    const T* others, int width,
                                    float (&sums)[Sizes::kBlocks][kWidth / 8][4]) {
  uint32_t w[Sizes::kBlocks][Sizes::kOthers / kTile][4];
#pragma unroll
  for (int b = 0; b < Sizes::kBlocks; ++b)
#pragma unroll
    for (int j = 0; j < Sizes::kOthers / kTile; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* const two = &weights[b][2 * j + e / 2][e % 2 * 2];
        w[b][j][e] = pack_pair<T>(two[0], two[1]);
      }
#pragma unroll
  for (int step = 0; step < kWidth; step += kStep) {
    if (step > 0 && step >= width) continue;
#pragma unroll
    for (int c = step; c < step + kStep; c += kTile)
#pragma unroll
      for (int j = 0; j < Sizes::kOthers / kTile; ++j) {
        uint32_t z[4];
        load_transposed_matrices(z, others + j * kTile * Sizes::kStride + c);
#pragma unroll
        for (int b = 0; b < Sizes::kBlocks; ++b) {
          multiply_add<T>(sums[b][c / 8], w[b][j], z[0], z[1]);
          multiply_add<T>(sums[b][c / 8 + 1], w[b][j], z[2], z[3]);
        }
      }
  }
}

// Writes the warp's sums, through its own rows' tile; zeros to padding.
template <typename T, typename Sizes, int kWidth>
__device__ inline void write_sums(const float (&sums)[Sizes::kBlocks][kWidth / 8][4], float scale,
                                  T* tile, int first, int length, int rows, int width,
                                  const HeadRows<T>& to) {
  constexpr int kRowChunks = kWidth / kChunk<T>;
  const int lane = lane_index();
  __syncwarp();  // the tile is read
#pragma unroll
  for (int b = 0; b < Sizes::kBlocks; ++b)
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = b * kTile + half * 8 + lane / 4;
        *reinterpret_cast<Two*>(tile + row * Sizes::kStride + c * 8 + lane % 4 * 2) =
            Two{pack_pair<T>(scale * sums[b][c][half * 2], scale * sums[b][c][half * 2 + 1])};
      }
  __syncwarp();
  const int column = lane % kRowChunks * kChunk<T>;
  for (int r = lane / kRowChunks; r < Sizes::kOwnOfWarp; r += kWarp / kRowChunks) {
    if (first + r >= rows || column >= width) continue;
    const auto* const chunk = reinterpret_cast<const Chunk*>(tile + r * Sizes::kStride + column);
    *reinterpret_cast<Chunk*>(to.at(first + r) + column) = first + r < length ? *chunk : Chunk{};
  }
}

template <typename T, int kWidth, typename S>
__global__ void __launch_bounds__(kMostWarps* kWarp, TileSizes<kWidth, S>::kMinBlocks)
    tile_kernel(HstuWork<T> work) {
  using Sizes = TileSizes<kWidth, S>;
  constexpr int kStaged = Sizes::kStaged, kOthers = Sizes::kOthers, kStride = Sizes::kStride;
  const int own_rows = static_cast<int>(blockDim.x) / kWarp * Sizes::kOwnOfWarp;
  const HstuBlock<T, S> block(work, own_rows);
  if (block.first >= block.rows) return;
  const int a = static_cast<int>(work.in.attention_dim), c = static_cast<int>(work.in.hidden_dim);
  const int length = block.length, lane = lane_index();
  const int row = static_cast<int>(threadIdx.x) / kWarp * Sizes::kOwnOfWarp;  // of the warp
  const int mine = block.first + row;
  const float score_scale = score_scale_of(a);
  T* const own = dynamic_shared<T>();
  T* const own_values = own + own_rows * kStride;
  T* const others = own + (S::kOfScores ? 2 : 1) * own_rows * kStride;
  const auto stage_others = [&](int from, int turn) {
    T* const to = others + turn * 2 * kStaged * kStride;
    stage<kWidth, kStride>(block.others(), from, kStaged, length, a, to);
    stage<kWidth, kStride>(block.other_values(), from, kStaged, length, c, to + kStaged * kStride);
  };
  int at = block.next(0, kStaged, own_rows);
  if (at < length) {
    stage<kWidth, kStride>(block.own(), block.first, own_rows, length, a, own);
    if constexpr (S::kOfScores)
      stage<kWidth, kStride>(block.own_values(), block.first, own_rows, length, c, own_values);
    stage_others(at, 0);
  }
  __pipeline_commit();
  // The lane's place in 16 rows.
  const int place = lane % kTile * kStride + lane / kTile * 8;
  float score_sums[Sizes::kBlocks][S::kOfScores ? kWidth / 8 : 1][4] = {};
  float value_sums[Sizes::kBlocks][S::kOfValues ? kWidth / 8 : 1][4] = {};
  for (int turn = 0; at < length; turn ^= 1) {
    const int following = block.next(at + kStaged, kStaged, own_rows);
    if (following < length) stage_others(following, turn ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
#pragma unroll 1
    for (int part = 0; part < kStaged; part += kOthers) {
      const int from = at + part;
      const Seen seen = block.seen(mine, mine + Sizes::kOwnOfWarp, from, from + kOthers);
      if (seen == Seen::kNone) continue;
      const T* const z = others + (turn * 2 * kStaged + part) * kStride + place;
      float scores[Sizes::kBlocks][kOthers / 8][4] = {}, inner[Sizes::kBlocks][kOthers / 8][4] = {};
      add_scores<T, Sizes, kWidth>(own + row * kStride + place, z, a, scores);
      if constexpr (S::kOfScores)
        add_scores<T, Sizes, kWidth>(own_values + row * kStride + place, z + kStaged * kStride, c,
                                     inner);
#pragma unroll
      for (int b = 0; b < Sizes::kBlocks; ++b)
#pragma unroll
        for (int j = 0; j < kOthers / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            weigh_pair<T>(score_scale, scores[b][j][e], inner[b][j][e]);
            if (seen == Seen::kSome && !block.sees(mine + b * kTile + e / 2 * 8 + lane / 4,
                                                   from + j * 8 + lane % 4 * 2 + e % 2))
              scores[b][j][e] = inner[b][j][e] = 0;
          }
      if constexpr (S::kOfScores) add_weighted<T, Sizes, kWidth>(inner, z, a, score_sums);
      if constexpr (S::kOfValues)
        add_weighted<T, Sizes, kWidth>(scores, z + kStaged * kStride, c, value_sums);
    }
    __syncthreads();  // these others are read
    at = following;
  }
  __pipeline_wait_prior(0);
  if constexpr (S::kOfScores)
    write_sums<T, Sizes, kWidth>(score_sums, work.in.scale * score_scale, own + row * kStride, mine,
                                 length, block.rows, a, block.score_sums());
  if constexpr (S::kOfValues)
    write_sums<T, Sizes, kWidth>(value_sums, work.in.scale,
                                 (S::kOfScores ? own_values : own) + row * kStride, mine, length,
                                 block.rows, c, block.value_sums());
}

// ---- In floats ----

constexpr int kSide = 16;  // a block's threads are kSide x kSide

// Floats of shared memory, where rows are a whole number of fours and eight of them lie in
// different groups of banks.
template <int kPiece, typename S>
struct PieceSizes {
  static constexpr int kRows = kPiece * kSide;  // own ones, and others
  static constexpr int kPairs = kRows + 4;      // weights of one own row
  int a, c;                                     // widths of rows
  __host__ __device__ PieceSizes(int64_t attention_dim, int64_t hidden_dim)
      : a(padded(attention_dim)), c(padded(hidden_dim)) {}
  __host__ __device__ static int padded(int64_t n) { return static_cast<int>((n + 3) / 4 | 1) * 4; }
  [[nodiscard]] __host__ __device__ int own() const { return kRows * (S::kOfScores ? a + c : a); }
  [[nodiscard]] __host__ __device__ int others() const { return kRows * (a + c); }
  [[nodiscard]] __host__ __device__ int score_sums() const { return S::kOfScores ? kRows * a : 0; }
  [[nodiscard]] __host__ __device__ int value_sums() const { return S::kOfValues ? kRows * c : 0; }
  [[nodiscard]] __host__ __device__ int all() const {
    return own() + others() + score_sums() + value_sums() + S::kCount * kRows * kPairs;
  }
};

template <typename T>
__device__ inline void stage_floats(const HeadRows<const T>& from, int first, int count, int length,
                                    int width, int stride, float* to) {
  for (int r = static_cast<int>(threadIdx.x) / kWarp; r < count; r += kSide * kSide / kWarp)
    for (int c = lane_index(); c < stride; c += kWarp)
      to[r * stride + c] = first + r < length && c < width ? to_float(from.at(first + r)[c]) : 0.0f;
}

__device__ inline Floats four(const float* from) { return *reinterpret_cast<const Floats*>(from); }

// dots[i][j] = own row i . other row j, of the thread's.
template <int kPiece>
__device__ inline void multiply(const float* own, const float* others, int stride,
                                float (&dots)[kPiece][kPiece]) {
  for (int c = 0; c < stride; c += 4) {
    Floats x[kPiece], z[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      x[i] = four(own + i * kSide * stride + c);
      z[i] = four(others + i * kSide * stride + c);
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) dots[i][j] += x[i].at[e] * z[j].at[e];
  }
}

// The thread's columns of its own rows in sums += weights others.
template <int kPiece, typename Sizes>
__device__ inline void add_products(const float* weights, const float* others, int column,
                                    int stride, float* sums) {
  for (int c = column; c < stride; c += kSide * 4) {
    Floats sum[kPiece];
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum[i] = four(sums + i * kSide * stride + c);
    for (int j = 0; j < Sizes::kRows; j += 4) {
      Floats w[kPiece];
#pragma unroll
      for (int i = 0; i < kPiece; ++i) w[i] = four(weights + i * kSide * Sizes::kPairs + j);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Floats z = four(others + (j + k) * stride + c);
#pragma unroll
        for (int i = 0; i < kPiece; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i].at[e] += w[i].at[k] * z.at[e];
      }
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
      *reinterpret_cast<Floats*>(sums + i * kSide * stride + c) = sum[i];
  }
}

template <typename T, int kPiece, typename S>
__global__ void __launch_bounds__(kSide* kSide, 2) piece_kernel(HstuWork<T> work) {
  using Sizes = PieceSizes<kPiece, S>;
  constexpr int kRows = Sizes::kRows;
  const HstuBlock<T, S> block(work, kRows);
  if (block.first >= block.rows) return;
  const int a = static_cast<int>(work.in.attention_dim), c = static_cast<int>(work.in.hidden_dim);
  const Sizes sizes(a, c);
  const int length = block.length;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const float score_scale = score_scale_of(a);
  float* const own = dynamic_shared<float>();
  float* const own_values = own + kRows * sizes.a;
  float* const others = own + sizes.own();
  float* const other_values = others + kRows * sizes.a;
  float* const score_sums = others + sizes.others();
  float* const value_sums = score_sums + sizes.score_sums();
  float* const weights = value_sums + sizes.value_sums();  // of values, then of scores
  float* const score_weights = weights + (S::kOfValues ? kRows * Sizes::kPairs : 0);
  // A thread's own rows are y, y + kSide ..., and of sums it has columns 4 x ... 4 x + 3, and so on.
  const auto for_own = [&](int stride, float* sums, const auto& body) {
    for (int i = y; i < kRows; i += kSide)
      for (int column = 4 * x; column < stride; column += 4 * kSide)
        for (int e = column; e < column + 4; ++e) body(block.first + i, e, sums[i * stride + e]);
  };
  const auto clear = [](int, int, float& sum) { sum = 0; };
  if (S::kOfScores) for_own(sizes.a, score_sums, clear);
  if (S::kOfValues) for_own(sizes.c, value_sums, clear);
  stage_floats(block.own(), block.first, kRows, length, a, sizes.a, own);
  if (S::kOfScores)
    stage_floats(block.own_values(), block.first, kRows, length, c, sizes.c, own_values);
  for (int at = block.next(0, kRows, kRows); at < length;
       at = block.next(at + kRows, kRows, kRows)) {
    __syncthreads();
    stage_floats(block.others(), at, kRows, length, a, sizes.a, others);
    stage_floats(block.other_values(), at, kRows, length, c, sizes.c, other_values);
    __syncthreads();
    float scores[kPiece][kPiece] = {}, inner[kPiece][kPiece] = {};
    multiply<kPiece>(own + y * sizes.a, others + x * sizes.a, sizes.a, scores);
    if (S::kOfScores)
      multiply<kPiece>(own_values + y * sizes.c, other_values + x * sizes.c, sizes.c, inner);
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        weigh_pair<T>(score_scale, scores[i][j], inner[i][j]);
        const int row = y + i * kSide, other = x + j * kSide;
        const bool sees = block.sees(block.first + row, at + other);
        if (S::kOfValues) weights[row * Sizes::kPairs + other] = sees ? scores[i][j] : 0.0f;
        if (S::kOfScores) score_weights[row * Sizes::kPairs + other] = sees ? inner[i][j] : 0.0f;
      }
    __syncthreads();
    if (S::kOfScores)
      add_products<kPiece, Sizes>(score_weights + y * Sizes::kPairs, others, 4 * x, sizes.a,
                                  score_sums + y * sizes.a);
    if (S::kOfValues)
      add_products<kPiece, Sizes>(weights + y * Sizes::kPairs, other_values, 4 * x, sizes.c,
                                  value_sums + y * sizes.c);
  }
  const auto write = [&](const HeadRows<T>& to, int width, float scale) {
    return [&block, to, width, scale](int row, int column, float sum) {
      if (row < block.rows && column < width)
        to.at(row)[column] = from_float<T>(row < block.length ? scale * sum : 0.0f);
    };
  };
  if (S::kOfScores)
    for_own(sizes.a, score_sums, write(block.score_sums(), a, work.in.scale * score_scale));
  if (S::kOfValues) for_own(sizes.c, value_sums, write(block.value_sums(), c, work.in.scale));
}

// ---- Launches ----

// Starts a block for each `own_rows` of a head's rows.
template <typename T>
void start(LaunchShape shape, void (*kernel)(HstuWork<T>), const HstuWork<T>& work, int own_rows) {
  const int64_t tiles = (work.in.n + own_rows - 1) / own_rows;
  shape.grid = dim3(static_cast<unsigned>(tiles * work.in.heads * work.in.lengths.size()));
  launch(shape, kernel, work);
}

template <typename S, int kWidth, typename T>
void start_tiles(LaunchShape shape, const HstuWork<T>& work) {
  using Sizes = TileSizes<kWidth, S>;
  const int64_t wanted = (work.in.n + Sizes::kOwnOfWarp - 1) / Sizes::kOwnOfWarp;
  const int warps = static_cast<int>(std::clamp<int64_t>(wanted, 1, kMostWarps));
  const int own_rows = warps * Sizes::kOwnOfWarp;
  shape.block = dim3(static_cast<unsigned>(warps * kWarp));
  shape.shared_bytes = static_cast<size_t>(Sizes::elements(own_rows)) * sizeof(T);
  start(shape, tile_kernel<T, kWidth, S>, work, own_rows);
}

// True once the kernel is started: with pieces of this size two blocks have room on the GPUs that
// have most, and one on all.
template <typename S, int kPiece, typename T>
bool start_pieces(LaunchShape shape, const HstuWork<T>& work) {
  using Sizes = PieceSizes<kPiece, S>;
  const int64_t bytes = Sizes(work.in.attention_dim, work.in.hidden_dim).all() * int64_t{4};
  if (kPiece > 1 && bytes > 96 * 1024) return false;
  shape.block = dim3(kSide * kSide);
  shape.shared_bytes = static_cast<size_t>(bytes);
  start(shape, piece_kernel<T, kPiece, S>, work, Sizes::kRows);
  return true;
}

template <typename S, typename T>
void start_sums(const char* name, cudaStream_t stream, const HstuWork<T>& work) {
  const LaunchShape shape{.name = name, .stream = stream};
  const int64_t a = work.in.attention_dim, c = work.in.hidden_dim, width = std::max(a, c);
  if constexpr (sizeof(T) == 2) {
    if (a % kTile == 0 && c % kTile == 0 && is_aligned(work.in.uvqk.data()) &&
        is_aligned(work.dy.data()) && is_aligned(work.y.data()) && is_aligned(work.duvqk.data())) {
      if constexpr (!S::kIsSplit) {
        if (width <= 32) return start_tiles<S, 32>(shape, work);
        if (width <= 64) return start_tiles<S, 64>(shape, work);
        if (width <= kMostTogether) return start_tiles<S, kMostTogether>(shape, work);
      }
      if constexpr (S::kCount == 1)
        if (width <= 256) return start_tiles<S, 256>(shape, work);
    }
  }
  if (!start_pieces<S, 4>(shape, work) && !start_pieces<S, 2>(shape, work))
    start_pieces<S, 1>(shape, work);
}

}  // namespace

template <typename T>
void hstu_attention_forward(cudaStream_t stream, const HstuTensors<T>& in, Matrix<T> y) {
  start_sums<SumsOfY>("hstu_attention_forward", stream, HstuWork<T>{.in = in, .y = y});
}

template <typename T>
void hstu_attention_backward(cudaStream_t stream, const HstuTensors<T>& in, Matrix<const T> dy,
                             Matrix<T> duvqk) {
  const HstuWork<T> work{.in = in, .dy = dy, .duvqk = duvqk};
  start_sums<SumsOfDq>("hstu_attention_backward_q", stream, work);
  if (std::max(in.attention_dim, in.hidden_dim) <= kMostTogether)
    return start_sums<SumsOfDkDv>("hstu_attention_backward_kv", stream, work);
  // Registers, and shared memory, have room for one of the two sums.
  start_sums<SumsOfDk>("hstu_attention_backward_k", stream, work);
  start_sums<SumsOfDv>("hstu_attention_backward_v", stream, work);
}

HLITE_KERNELS(hstu_attention) {
  for_each_float([&]<typename T>() {
    list.add<hstu_attention_forward<T>>(kernels::hstu_attention_forward<T>);
    list.add<hstu_attention_backward<T>>(kernels::hstu_attention_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
