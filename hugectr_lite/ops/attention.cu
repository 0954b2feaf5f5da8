// Kernels of attention: a block has some rows of one head of one sample, a warp kRowsOfWarp of them,
// and goes through the rows of the other side (keys for rows, rows for keys), 32 at a time in shared
// memory, with a lane for each. So the products of 32 x kRowsOfWarp pairs are numbers of lanes; to
// weigh vectors with them, they pass through shared memory, and lanes stand for columns. Forward
// corrects its sums where a larger score comes. Backward has one kernel for the gradients of q and
// one for those of k and v, which sum over what they go through: no sum is shared, so none depends
// on the order of blocks.
#include "hugectr_lite/ops/attention.h"

#include <cmath>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kRowsOfWarp = 4;
constexpr int kMostWarps = 8;

// One head's columns of one sample's rows.
template <typename T>
struct HeadRows {
  T* data;
  int64_t rows, stride;
  __device__ HeadRows(View<T, 3> x, int64_t sample, int64_t head, int width)
      : data(x.data() ? x.row(sample) + head * width : nullptr), rows(x.dim(1)), stride(x.dim(2)) {}
  __device__ T* at(int64_t i) const { return data + i * stride; }
};

__device__ inline float warp_max(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

// to[i] = factor * row `first` + i, zeros beyond the last, for i < count; by the block's warps.
template <typename T>
__device__ void stage(const HeadRows<const T>& from, int64_t first, int count, int width,
                      float factor, float* to, int stride) {
  for (int i = static_cast<int>(threadIdx.y); i < count; i += static_cast<int>(blockDim.y))
    for (int c = static_cast<int>(threadIdx.x); c < width; c += kWarp)
      to[i * stride + c] = first + i < from.rows ? factor * to_float(from.at(first + i)[c]) : 0.0f;
}

// What the rows of a block see, of the rows of q (kOfKeys false) or of k.
template <typename T, bool kOfKeys>
struct Sight {
  const T* mask;  // of the sample, or null
  int64_t f, t;

  __device__ bool sees(int64_t own, int64_t other) const {
    const int64_t i = kOfKeys ? other : own, j = kOfKeys ? own : other;
    return i < f && j < t && (mask == nullptr || to_float(mask[i * t + j]) != 0);
  }
  // The end of what rows [first, first + count) see. Uses `shared`, a number each warp.
  __device__ int64_t end(int64_t first, int count, int64_t* shared) const {
    const int64_t others = kOfKeys ? f : t;
    if (mask == nullptr) return others;
    int64_t last = 0;
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int warps = static_cast<int>(blockDim.y);
    // Lanes are keys, which lie side by side.
    if (kOfKeys) {
      for (int64_t i = y; i < f; i += warps)
        if (x < count && sees(first + x, i)) last = i + 1;
    } else {
      for (int r = y; r < count; r += warps)
        for (int64_t j = x; j < t; j += kWarp)
          if (sees(first + r, j) && j + 1 > last) last = j + 1;
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const int64_t other = __shfl_xor_sync(0xffffffffu, last, distance);
      last = other > last ? other : last;
    }
    if (x == 0) shared[y] = last;
    __syncthreads();
    for (int w = 0; w < warps; ++w) last = shared[w] > last ? shared[w] : last;
    __syncthreads();
    return last;
  }
};

// body(sample, head, first row, warp's first row in the block) for the blocks' share of all rows.
template <typename Body>
__device__ void for_each_piece(int64_t batch, int64_t heads, int64_t rows, const Body& body) {
  const int64_t count = int64_t{blockDim.y} * kRowsOfWarp, pieces = (rows + count - 1) / count;
  for (int64_t w = blockIdx.x; w < batch * heads * pieces; w += gridDim.x)
    body(w / pieces / heads, w / pieces % heads, w % pieces * count);
}

// sums[r][c] = scale[r] * sums[r][c] + sum over i of weights[r][i] * vectors[i][c], for the warp's
// rows. A lane has every 32nd column.
__device__ inline void add_weighted(const float* weights, const float* vectors, int stride,
                                    int width, const float (&scale)[kRowsOfWarp], float* sums) {
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kWarp) {
    float sum[kRowsOfWarp];
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) sum[r] = scale[r] * sums[r * width + c];
    for (int i = 0; i < kWarp; ++i) {
      const float x = vectors[i * stride + c];
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) sum[r] += weights[r * kWarp + i] * x;
    }
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) sums[r * width + c] = sum[r];
  }
}

// dots[r] = own[r] . the lane's other.
__device__ inline void multiply(const float* own, const float* other, int width,
                                float (&dots)[kRowsOfWarp]) {
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) dots[r] = 0;
  for (int c = 0; c < width; ++c)
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) dots[r] += own[r * width + c] * other[c];
}

// Floats of shared memory: vectors of the block's rows, of 32 others (a number further apart, so
// that lanes read from different banks), and weights of pairs.
struct AttentionShared {
  int width, rows;
  __host__ __device__ int own() const { return rows * width; }
  __host__ __device__ int other_stride() const { return width + (width % 2 == 0 ? 1 : 2); }
  __host__ __device__ int other() const { return kWarp * other_stride(); }
  __host__ __device__ int weights() const { return rows * kWarp; }
  __host__ __device__ int forward() const { return 2 * (own() + other()) + weights(); }
  __host__ __device__ int backward() const {
    return 4 * own() + 2 * other() + 2 * weights() + 3 * kWarp;
  }
};

template <typename T>
__global__ void __launch_bounds__(kWarp* kMostWarps)
    forward_kernel(AttentionInputs<T> in, float score_scale, View<float, 3> statistics,
                   View<T, 3> y) {
  const int width = static_cast<int>(in.q.dim(2) / in.heads);
  const int rows = static_cast<int>(blockDim.y) * kRowsOfWarp;
  const int lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y) * kRowsOfWarp;
  const AttentionShared shared{width, rows};
  const int stride = shared.other_stride();
  float* const queries = dynamic_shared<float>();
  float* const sums = queries + shared.own();
  float* const keys = sums + shared.own();
  float* const values = keys + shared.other();
  float* const weights = values + shared.other() + row * kWarp;
  __shared__ int64_t ends[kMostWarps];
  for_each_piece(y.dim(0), in.heads, y.dim(1), [&](int64_t b, int64_t head, int64_t first) {
    const HeadRows<const T> q(in.q, b, head, width), k(in.k, b, head, width),
        v(in.v, b, head, width);
    const HeadRows<T> to(y, b, head, width);
    const Sight<T, false> sight{in.mask.data() ? in.mask.row(b) : nullptr, q.rows, k.rows};
    const int64_t end = sight.end(first, rows, ends);
    float most[kRowsOfWarp], total[kRowsOfWarp], scale[kRowsOfWarp];
    for (int r = 0; r < kRowsOfWarp; ++r) {
      most[r] = -INFINITY;
      total[r] = 0;
      for (int c = lane; c < width; c += kWarp) sums[(row + r) * width + c] = 0;
    }
    stage(q, first, rows, width, score_scale, queries, width);
    for (int64_t from = 0; from < end; from += kWarp) {
      __syncthreads();
      stage(k, from, kWarp, width, 1, keys, stride);
      stage(v, from, kWarp, width, 1, values, stride);
      __syncthreads();
      float scores[kRowsOfWarp];
      multiply(queries + row * width, keys + lane * stride, width, scores);
      for (int r = 0; r < kRowsOfWarp; ++r) {
        const bool seen = sight.sees(first + row + r, from + lane);
        const float largest = fmaxf(most[r], warp_max(seen ? scores[r] : -INFINITY));
        const float weight = seen ? std::exp(scores[r] - largest) : 0.0f;
        scale[r] = most[r] == largest ? 1.0f : std::exp(most[r] - largest);
        total[r] = scale[r] * total[r] + warp_sum(weight);
        most[r] = largest;
        weights[r * kWarp + lane] = weight;
      }
      __syncwarp();
      add_weighted(weights, values, stride, width, scale, sums + row * width);
    }
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int64_t i = first + row + r;
      if (i >= q.rows) continue;
      const bool any = most[r] != -INFINITY;
      const float rate = any ? 1 / total[r] : 0.0f;
      for (int c = lane; c < width; c += kWarp)
        to.at(i)[c] = from_float<T>(rate * sums[(row + r) * width + c]);
      float* const kept = statistics.row(b) + (head * q.rows + i) * kAttentionStatistics;
      if (lane == 0) {
        kept[0] = any ? most[r] : 0.0f;
        kept[1] = rate;
      }
    }
    __syncthreads();  // the queries are read
  });
}

template <typename T>
struct AttentionGradients {
  View<const float, 3> statistics;
  View<const T, 3> y, dy;
  View<T, 3> dq, dk, dv;
};

template <typename T, bool kOfKeys>
__global__ void __launch_bounds__(kWarp* kMostWarps)
    backward_kernel(AttentionInputs<T> in, float score_scale, AttentionGradients<T> g) {
  const int width = static_cast<int>(in.q.dim(2) / in.heads);
  const int rows = static_cast<int>(blockDim.y) * kRowsOfWarp;
  const int lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y) * kRowsOfWarp;
  const AttentionShared shared{width, rows};
  const int stride = shared.other_stride();
  // Of rows: q, dy and the sums of dq, nothing. Of keys: k, v, and the sums of dk, dv.
  float* const own = dynamic_shared<float>();
  float* const own_values = own + shared.own();
  float* const sums = own_values + shared.own();
  float* const value_sums = sums + shared.own();
  float* const other = value_sums + shared.own();
  float* const other_values = other + shared.other();
  float* const weights = other_values + shared.other() + row * kWarp;
  float* const dscores = weights + shared.weights();
  // Of 32 rows of q: statistics, and dy . y, which is the mean of dy . v over the row's weights.
  float* const numbers = other_values + shared.other() + 2 * shared.weights();
  __shared__ int64_t ends[kMostWarps];
  const View<const T, 3>& side = kOfKeys ? in.k : in.q;
  for_each_piece(side.dim(0), in.heads, side.dim(1), [&](int64_t b, int64_t head, int64_t first) {
    const HeadRows<const T> q(in.q, b, head, width), k(in.k, b, head, width),
        v(in.v, b, head, width), y(g.y, b, head, width), dy(g.dy, b, head, width);
    const Sight<T, kOfKeys> sight{in.mask.data() ? in.mask.row(b) : nullptr, q.rows, k.rows};
    const int64_t end = sight.end(first, rows, ends);
    // numbers[i] of row `from` + i of q, for i < count <= 32; by the block's warps.
    const auto stage_numbers = [&](int64_t from, int count) {
      for (int i = static_cast<int>(threadIdx.y); i < count; i += static_cast<int>(blockDim.y)) {
        const int64_t at = from + i;
        float inner = 0;
        if (at < q.rows)
          for (int c = lane; c < width; c += kWarp)
            inner += to_float(y.at(at)[c]) * to_float(dy.at(at)[c]);
        inner = warp_sum(inner);
        if (lane >= 3) continue;
        const float* const kept = g.statistics.row(b) + (head * q.rows + at) * kAttentionStatistics;
        numbers[i * 3 + lane] = at >= q.rows ? 0.0f : lane < 2 ? kept[lane] : inner;
      }
    };
    const float one[kRowsOfWarp] = {1, 1, 1, 1};
    for (int r = 0; r < kRowsOfWarp; ++r)
      for (int c = lane; c < width; c += kWarp) {
        sums[(row + r) * width + c] = 0;
        value_sums[(row + r) * width + c] = 0;
      }
    stage(kOfKeys ? k : q, first, rows, width, kOfKeys ? 1 : score_scale, own, width);
    stage(kOfKeys ? v : dy, first, rows, width, 1, own_values, width);
    if (!kOfKeys) stage_numbers(first, rows);
    for (int64_t from = 0; from < end; from += kWarp) {
      __syncthreads();
      stage(kOfKeys ? q : k, from, kWarp, width, kOfKeys ? score_scale : 1, other, stride);
      stage(kOfKeys ? dy : v, from, kWarp, width, 1, other_values, stride);
      if (kOfKeys) stage_numbers(from, kWarp);
      __syncthreads();
      float scores[kRowsOfWarp], inner[kRowsOfWarp];
      multiply(own + row * width, other + lane * stride, width, scores);
      multiply(own_values + row * width, other_values + lane * stride, width, inner);
      for (int r = 0; r < kRowsOfWarp; ++r) {
        const float* const of = numbers + (kOfKeys ? lane : row + r) * 3;
        const bool seen = sight.sees(first + row + r, from + lane);
        const float weight = seen ? std::exp(scores[r] - of[0]) * of[1] : 0.0f;
        weights[r * kWarp + lane] = weight;
        dscores[r * kWarp + lane] = seen ? weight * (inner[r] - of[2]) : 0.0f;
      }
      __syncwarp();
      add_weighted(dscores, other, stride, width, one, sums + row * width);
      if (kOfKeys)
        add_weighted(weights, other_values, stride, width, one, value_sums + row * width);
    }
    const HeadRows<T> to(kOfKeys ? g.dk : g.dq, b, head, width), to_values(g.dv, b, head, width);
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const int64_t i = first + row + r;
      if (i >= side.dim(1)) continue;
      for (int c = lane; c < width; c += kWarp) {
        if (to.data)
          to.at(i)[c] = from_float<T>((kOfKeys ? 1 : score_scale) * sums[(row + r) * width + c]);
        if (kOfKeys && to_values.data)
          to_values.at(i)[c] = from_float<T>(value_sums[(row + r) * width + c]);
      }
    }
    __syncthreads();  // the block's vectors are read
  });
}

// A block of as many warps as `n` rows need, and as shared memory has room for.
template <typename Bytes>
LaunchShape attention_shape(const char* name, cudaStream_t stream, int64_t heads, int64_t n,
                            int width, const Bytes& floats) {
  constexpr size_t kRoom = 96 * 1024;  // leaves a second block room on the GPUs that have most
  int warps = kMostWarps;
  const auto bytes = [&] {
    return static_cast<size_t>(floats(AttentionShared{width, warps * kRowsOfWarp})) * sizeof(float);
  };
  while (warps > 1 && (int64_t{warps} / 2 * kRowsOfWarp >= n || bytes() > kRoom)) warps /= 2;
  const int64_t rows = int64_t{warps} * kRowsOfWarp;
  return {.name = name,
          .grid = grid_for(heads * ((n + rows - 1) / rows), 1),
          .block = dim3(kWarp, static_cast<unsigned>(warps)),
          .shared_bytes = bytes(),
          .stream = stream};
}

template <typename T>
float score_scale_of(const AttentionInputs<T>& in) {
  return 1 / std::sqrt(static_cast<float>(in.q.dim(2) / in.heads));
}

}  // namespace

template <typename T>
void attention_forward(cudaStream_t stream, const AttentionInputs<T>& in, View<float, 3> statistics,
                       View<T, 3> y) {
  const int64_t heads = y.dim(0) * in.heads;
  const auto shape = attention_shape("attention_forward", stream, heads, y.dim(1),
                                     static_cast<int>(y.dim(2) / in.heads),
                                     [](const AttentionShared& s) { return s.forward(); });
  launch(shape, forward_kernel<T>, in, score_scale_of(in), statistics, y);
}

template <typename T>
void attention_backward(cudaStream_t stream, const AttentionInputs<T>& in,
                        View<const float, 3> statistics, View<const T, 3> y, View<const T, 3> dy,
                        View<T, 3> dq, View<T, 3> dk, View<T, 3> dv) {
  const int64_t heads = y.dim(0) * in.heads;
  const AttentionGradients<T> gradients{statistics, y, dy, dq, dk, dv};
  const auto shape = [&](const char* name, int64_t n) {
    return attention_shape(name, stream, heads, n, static_cast<int>(y.dim(2) / in.heads),
                           [](const AttentionShared& s) { return s.backward(); });
  };
  if (dq.data())
    launch(shape("attention_backward_rows", in.q.dim(1)), backward_kernel<T, false>, in,
           score_scale_of(in), gradients);
  if (dk.data() || dv.data())
    launch(shape("attention_backward_keys", in.k.dim(1)), backward_kernel<T, true>, in,
           score_scale_of(in), gradients);
}

HLITE_KERNELS(attention) {
  for_each_float([&]<typename T>() {
    list.add<attention_forward<T>>(kernels::attention_forward<T>);
    list.add<attention_backward<T>>(kernels::attention_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
