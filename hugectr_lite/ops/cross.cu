// Kernels of cross layers. Low rank: each pass goes once over what it reads and writes, a pack of
// columns in a few rows a thread, and sums columns on the way. Vector: a warp for each sample.
//
// MLPerf's DLRM-DCNv2 on one GPU (n = 3456, 16 bits): 6.9 kB a sample and matrix. Forward moves 4
// of them, backward 6, the first to run 5. One of them the product before has just written: h in
// forward, g in backward. Where all are more than the L2 cache holds, the others pass through it
// without displacing what it still has of that one: of 8,192 samples' 57 MB at most the 50 MB of an
// H200's L2. (To multiply and pass in four pieces of rows would find all of it there, but takes six
// launches more a layer, and products of 2,048 rows, 1.6 waves of tiles of 128 x 256 in place of
// 6.5, leave more multiprocessors idle: that costs as much.)
#include "hugectr_lite/ops/cross.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/l2_cache.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

// A pack of a matrix that other kernels need later (kPassing), or soon.
template <bool kPassing, int W, typename T>
__device__ inline Pack<T, W> load_of(const T* from) {
  if constexpr (kPassing)
    return load_passing_pack<W>(from);
  else
    return load_pack<W>(from);
}
template <bool kPassing, int W, typename T>
__device__ inline void store_of(T* to, const Pack<T, W>& pack) {
  if constexpr (kPassing)
    store_passing_pack(to, pack);
  else
    store_pack(to, pack);
}

// y = x0 h + x: stored, not summed.
template <typename T, bool kPassing>
struct CrossValue {
  Matrix<const T> x0, h, x;
  Matrix<T> y;

  template <int W>
  struct Item {
    Pack<T, W> x0, h, x;
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return {load_of<kPassing, W>(x0.row(row) + column), load_pack<W>(h.row(row) + column),
            load_of<kPassing, W>(x.row(row) + column)};
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t row, int64_t column, float*) const {
    Pack<T, W> out;
    for (int i = 0; i < W; ++i)
      out.value[i] = from_float<T>(to_float(item.x0.value[i]) * to_float(item.h.value[i]) +
                                   to_float(item.x.value[i]));
    store_of<kPassing>(y.row(row) + column, out);
  }
};

// The values that dx0 holds after this layer.
template <typename T>
HLITE_HD float gathered(const CrossInput<T>& input, float before, float g, float term) {
  return (input.first ? 0.0f : before) + term + (input.last ? g : 0.0f);
}

// h -> g x0, which is summed; dx0.
template <typename T, bool kPassing>
struct CrossGradient {
  Matrix<const T> g, x0;
  Matrix<T> h;
  CrossInput<T> input;

  // h and dx0 come later: their registers, too, would be more than there are.
  template <int W>
  struct Item {
    Pack<T, W> g, x0;
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    return {load_pack<W>(g.row(row) + column), load_of<kPassing, W>(x0.row(row) + column)};
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t row, int64_t column, float* sums) const {
    T* const factor = h.row(row) + column;
    if (input.dx0.data()) {
      T* const at = input.dx0.row(row) + column;
      const Pack<T, W> old = load_of<kPassing, W>(factor);
      Pack<T, W> dx0{};
      if (!input.first) dx0 = load_of<kPassing, W>(at);
      for (int i = 0; i < W; ++i) {
        const float gradient = to_float(item.g.value[i]);
        dx0.value[i] = from_float<T>(
            gathered(input, to_float(dx0.value[i]), gradient, gradient * to_float(old.value[i])));
      }
      store_of<kPassing>(at, dx0);
    }
    Pack<T, W> s;
    for (int i = 0; i < W; ++i) {
      const float value = to_float(item.g.value[i]) * to_float(item.x0.value[i]);
      sums[i] += value;
      s.value[i] = from_float<T>(value);
    }
    store_of<kPassing>(factor, s);
  }
};

template <typename T>
__global__ void vector_forward_kernel(Matrix<const T> x0, Matrix<const T> a, Vector<const T> b,
                                      Matrix<const T> x, Matrix<T> y) {
  for_each_warp_row(x0.dim(0), [&](int64_t row) {
    const float factor = to_float(*a.row(row));
    for (int64_t j = threadIdx.x; j < x0.dim(1); j += kWarp)
      y.row(row)[j] = from_float<T>(factor * to_float(x0.row(row)[j]) + to_float(b.data()[j]) +
                                    to_float(x.row(row)[j]));
  });
}

template <typename T>
__global__ void vector_backward_kernel(Matrix<const T> g, Matrix<const T> x0, Matrix<const T> a,
                                       CrossInput<T> input, T* p) {
  for_each_warp_row(x0.dim(0), [&](int64_t row) {
    const float factor = to_float(*a.row(row));
    float sum = 0;
    for (int64_t j = threadIdx.x; j < x0.dim(1); j += kWarp) {
      const float gradient = to_float(g.row(row)[j]);
      sum += gradient * to_float(x0.row(row)[j]);
      if (!input.dx0.data()) continue;
      T* const at = input.dx0.row(row) + j;
      const float before = input.first ? 0.0f : to_float(*at);
      *at = from_float<T>(gathered(input, before, gradient, factor * gradient));
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) p[row] = from_float<T>(sum);
  });
}

// Calls run(std::bool_constant): whether the matrices of a pass are more than L2 holds.
template <typename T, typename Run>
void with_passing(Matrix<const T> matrix, Run run) {
  constexpr int64_t kMatrices = 4;
  if (kMatrices * matrix.size() * int64_t{sizeof(T)} > l2_bytes())
    run(std::true_type());
  else
    run(std::false_type());
}

}  // namespace

template <typename T>
void cross_forward(cudaStream_t stream, Matrix<const T> x0, Matrix<const T> h, Matrix<const T> x,
                   Matrix<T> y) {
  with_passing(x0, [&](auto passing) {
    sum_columns<T>("cross_forward", stream, CrossValue<T, passing()>{x0, h, x, y}, x0.dim(0),
                   x0.dim(1), is_packable<T>(x0.dim(1), x0.data(), h.data(), x.data(), y.data()),
                   nullptr, {});
  });
}

template <typename T>
void cross_backward(Matmul& matmul, cudaStream_t stream, Matrix<const T> g, Matrix<const T> x0,
                    Matrix<T> h, const CrossInput<T>& input, Vector<float> db) {
  with_passing(x0, [&](auto passing) {
    sum_columns<T>("cross_backward", stream, CrossGradient<T, passing()>{g, x0, h, input},
                   x0.dim(0), x0.dim(1),
                   is_packable<T>(x0.dim(1), g.data(), x0.data(), h.data(), input.dx0.data()),
                   db.data(), scratch_of(matmul));
  });
}

template <typename T>
void vector_cross_forward(cudaStream_t stream, Matrix<const T> x0, Matrix<const T> a,
                          Vector<const T> b, Matrix<const T> x, Matrix<T> y) {
  launch(warp_rows("vector_cross_forward", x0.dim(0), stream), vector_forward_kernel<T>, x0, a, b,
         x, y);
}

template <typename T>
void vector_cross_backward(cudaStream_t stream, Matrix<const T> g, Matrix<const T> x0,
                           Matrix<const T> a, const CrossInput<T>& input, Matrix<T> p) {
  launch(warp_rows("vector_cross_backward", x0.dim(0), stream), vector_backward_kernel<T>, g, x0, a,
         input, p.data());
}

HLITE_KERNELS(cross) {
  for_each_float([&]<typename T>() {
    list.add<cross_forward<T>>(kernels::cross_forward<T>);
    list.add<vector_cross_forward<T>>(kernels::vector_cross_forward<T>);
    list.add<cross_backward<T>>(kernels::cross_backward<T>);
    list.add<vector_cross_backward<T>>(kernels::vector_cross_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
