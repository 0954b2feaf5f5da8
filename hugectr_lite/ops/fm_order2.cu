// Kernels of FmOrder2: a thread for each sample and column of its vectors, so that neighbours read
// neighbours.
#include "hugectr_lite/ops/fm_order2.h"

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/pack.cuh"

namespace hlite::ops::gpu {
namespace {

template <typename T>
__global__ void __launch_bounds__(kPackThreads) forward_kernel(View<const T, 3> x, Matrix<T> y) {
  const int64_t width = x.dim(2);
  for_each_pack<1>(y.size(), [&]<int>(int64_t at) {
    const T* const z = x.row(at / width) + at % width;
    float sum = 0, pairs = 0;
    for (int64_t s = 0; s < x.dim(1); ++s) {
      const float value = to_float(z[s * width]);
      pairs += value * sum;
      sum += value;
    }
    y.data()[at] = from_float<T>(pairs);
  });
}

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    backward_kernel(View<const T, 3> x, Matrix<const T> dy, View<T, 3> dx) {
  const int64_t width = x.dim(2);
  for_each_pack<1>(dy.size(), [&]<int>(int64_t at) {
    const int64_t row = at / width, column = at % width;
    const T* const z = x.row(row) + column;
    T* const to = dx.row(row) + column;
    const float above = to_float(dy.data()[at]);
    float sum = 0;
    for (int64_t s = 0; s < x.dim(1); ++s) sum += to_float(z[s * width]);
    for (int64_t s = 0; s < x.dim(1); ++s)
      to[s * width] = from_float<T>(above * (sum - to_float(z[s * width])));
  });
}

LaunchShape shape_of(const char* name, int64_t n, cudaStream_t stream) {
  return {.name = name, .grid = pack_grid(n, 1), .block = dim3(kPackThreads), .stream = stream};
}

}  // namespace

template <typename T>
void fm_order2_forward(cudaStream_t stream, View<const T, 3> x, Matrix<T> y) {
  launch(shape_of("fm_order2_forward", y.size(), stream), forward_kernel<T>, x, y);
}

template <typename T>
void fm_order2_backward(cudaStream_t stream, View<const T, 3> x, Matrix<const T> dy,
                        View<T, 3> dx) {
  launch(shape_of("fm_order2_backward", dy.size(), stream), backward_kernel<T>, x, dy, dx);
}

HLITE_KERNELS(fm_order2) {
  for_each_float([&]<typename T>() {
    list.add<fm_order2_forward<T>>(kernels::fm_order2_forward<T>);
    list.add<fm_order2_backward<T>>(kernels::fm_order2_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
