// Kernels of WeightMultiply. S V is a few hundred, so all are bound by y, which each reads or
// writes once.
#include "hugectr_lite/ops/weight_multiply.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/column_sums.cuh"
#include "hugectr_lite/ops/matmul.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    weight_multiply_kernel(Matrix<const T> x, Matrix<const T> w, Matrix<T> y) {
  const int64_t columns = y.dim(1), width = w.dim(1), stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < y.size(); i += stride) {
    const int64_t row = i / columns, column = i % columns;
    const float value = to_float(x.row(row)[column / width]);
    y.data()[i] = from_float<T>(value * to_float(w.data()[column]));
  }
}

// A warp for each element of dx.
template <typename T>
__global__ void backward_data_kernel(Matrix<const T> dy, Matrix<const T> w, Matrix<T> dx) {
  const int64_t slots = w.dim(0), width = w.dim(1);
  for_each_warp_row(dx.size(), [&](int64_t i) {
    const T* const from = dy.data() + i * width;
    const T* const weights = w.row(i % slots);
    float sum = 0;
    for (int64_t v = threadIdx.x; v < width; v += kWarp)
      sum += to_float(from[v]) * to_float(weights[v]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) dx.data()[i] = from_float<T>(sum);
  });
}

// dy times x, only summed.
template <typename T>
struct WeightGradient {
  Matrix<const T> x, dy;
  int64_t width;

  template <int W>
  struct Item {
    Pack<T, W> dy;
    float x[W];
  };
  template <int W>
  HLITE_HD Item<W> load(int64_t row, int64_t column) const {
    Item<W> item;
    item.dy = load_pack<W>(dy.row(row) + column);
    for (int i = 0; i < W; ++i) item.x[i] = to_float(x.row(row)[(column + i) / width]);
    return item;
  }
  template <int W>
  HLITE_HD void finish(const Item<W>& item, int64_t, int64_t, float* sums) const {
    for (int i = 0; i < W; ++i) sums[i] += to_float(item.dy.value[i]) * item.x[i];
  }
};

}  // namespace

template <typename T>
void weight_multiply_forward(cudaStream_t stream, Matrix<const T> x, Matrix<const T> w,
                             Matrix<T> y) {
  launch({.name = "weight_multiply_forward",
          .grid = grid_for(y.size(), kThreads),
          .block = dim3(kThreads),
          .stream = stream},
         weight_multiply_kernel<T>, x, w, y);
}

template <typename T>
void weight_multiply_backward_data(cudaStream_t stream, Matrix<const T> dy, Matrix<const T> w,
                                   Matrix<T> dx) {
  launch(warp_rows("weight_multiply_backward_data", dx.size(), stream), backward_data_kernel<T>, dy,
         w, dx);
}

template <typename T>
void weight_multiply_backward_weights(Matmul& matmul, cudaStream_t stream, Matrix<const T> x,
                                      Matrix<const T> dy, Matrix<float> dw) {
  sum_columns<T>("weight_multiply_backward_weights", stream, WeightGradient<T>{x, dy, dw.dim(1)},
                 dy.dim(0), dy.dim(1), is_packable<T>(dy.dim(1), dy.data()), dw.data(),
                 scratch_of(matmul));
}

HLITE_KERNELS(weight_multiply) {
  for_each_float([&]<typename T>() {
    list.add<weight_multiply_forward<T>>(kernels::weight_multiply_forward<T>);
    list.add<weight_multiply_backward_data<T>>(kernels::weight_multiply_backward_data<T>);
    list.add<weight_multiply_backward_weights<T>>(kernels::weight_multiply_backward_weights<T>);
  });
}

}  // namespace hlite::ops::gpu
