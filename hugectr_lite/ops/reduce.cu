// Kernels of sums along an axis: where the axis is the last, a warp for each sum; else a thread,
// whose neighbours sum neighbouring columns.
#include "hugectr_lite/ops/reduce.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/pack.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

template <typename T>
__global__ void reduce_rows_kernel(View<const T, 3> x, float scale, T* y, CountedRows rows) {
  for_each_warp_row(x.dim(0), [&](int64_t row) {
    const int64_t n = valid_rows(rows.lengths, row, x.dim(1));
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += kWarp) sum += to_float(x.row(row)[i]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) y[row] = from_float<T>(rows.scale(scale, n) * sum);
  });
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    reduce_columns_kernel(View<const T, 3> x, float scale, Matrix<T> y, CountedRows rows) {
  const int64_t columns = y.dim(1);
  for_each_pack<1>(y.size(), [&]<int>(int64_t at) {
    const T* const from = x.row(at / columns) + at % columns;
    const int64_t n = valid_rows(rows.lengths, at / columns, x.dim(1));
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += to_float(from[i * columns]);
    y.data()[at] = from_float<T>(rows.scale(scale, n) * sum);
  });
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    broadcast_kernel(Matrix<const T> y, float scale, View<T, 3> x, CountedRows rows) {
  const int64_t columns = x.dim(2), sample = x.dim(1) * columns;
  for_each_pack<1>(x.size(), [&]<int>(int64_t at) {
    const int64_t n = valid_rows(rows.lengths, at / sample, x.dim(1));
    const T value = y.row(at / sample)[at % columns];
    const bool counts = at % sample < n * columns;
    x.data()[at] = from_float<T>(counts ? rows.scale(scale, n) * to_float(value) : 0.0f);
  });
}

LaunchShape element_shape(const char* name, int64_t n, cudaStream_t stream) {
  return {.name = name, .grid = pack_grid(n, 1), .block = dim3(kPackThreads), .stream = stream};
}

}  // namespace

template <typename T>
void reduce_axis(cudaStream_t stream, View<const T, 3> x, float scale, Matrix<T> y,
                 const CountedRows& rows) {
  constexpr const char* kName = "reduce_axis";
  if (y.dim(1) == 1)
    launch(warp_rows(kName, y.dim(0), stream), reduce_rows_kernel<T>, x, scale, y.data(), rows);
  else
    launch(element_shape(kName, y.size(), stream), reduce_columns_kernel<T>, x, scale, y, rows);
}

template <typename T>
void broadcast_axis(cudaStream_t stream, Matrix<const T> y, float scale, View<T, 3> x,
                    const CountedRows& rows) {
  launch(element_shape("broadcast_axis", x.size(), stream), broadcast_kernel<T>, y, scale, x, rows);
}

HLITE_KERNELS(reduce) {
  for_each_float([&]<typename T>() {
    list.add<reduce_axis<T>>(kernels::reduce_axis<T>);
    list.add<broadcast_axis<T>>(kernels::broadcast_axis<T>);
  });
}

}  // namespace hlite::ops::gpu
