// Kernels of softmax: a warp for each row.
#include "hugectr_lite/ops/softmax.h"

#include <cmath>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

// Longer rows are for a warp to read three times; those of attention are short.
template <typename T>
__global__ void forward_kernel(Matrix<const T> x, Matrix<const T> mask, float factor, Matrix<T> y) {
  for_each_warp_row(x.dim(0), [&](int64_t row) {
    const T* const from = x.row(row);
    const T* const seen = mask.data() ? mask.row(row) : nullptr;
    const auto z = [&](int64_t j) {
      return factor * to_float(from[j]) + (seen && to_float(seen[j]) == 0 ? kSoftmaxMasked : 0.0f);
    };
    float most = -INFINITY;
    bool counts = !seen;
    for (int64_t j = threadIdx.x; j < x.dim(1); j += kWarp) {
      most = fmaxf(most, z(j));
      counts |= seen && to_float(seen[j]) != 0;
    }
    counts = __any_sync(0xffffffffu, counts) != 0;
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, distance));
    float sum = 0;
    for (int64_t j = threadIdx.x; j < x.dim(1); j += kWarp) sum += std::exp(z(j) - most);
    sum = warp_sum(sum);
    for (int64_t j = threadIdx.x; j < x.dim(1); j += kWarp)
      y.row(row)[j] = from_float<T>(counts ? std::exp(z(j) - most) / sum : 0.0f);
  });
}

template <typename T>
__global__ void backward_kernel(Matrix<const T> y, Matrix<const T> dy, float factor, Matrix<T> dx) {
  for_each_warp_row(y.dim(0), [&](int64_t row) {
    const T* const out = y.row(row);
    const T* const above = dy.row(row);
    float sum = 0;
    for (int64_t j = threadIdx.x; j < y.dim(1); j += kWarp)
      sum += to_float(out[j]) * to_float(above[j]);
    sum = warp_sum(sum);
    for (int64_t j = threadIdx.x; j < y.dim(1); j += kWarp)
      dx.row(row)[j] = from_float<T>(factor * to_float(out[j]) * (to_float(above[j]) - sum));
  });
}

}  // namespace

template <typename T>
void softmax_forward(cudaStream_t stream, Matrix<const T> x, Matrix<const T> mask, float factor,
                     Matrix<T> y) {
  launch(warp_rows("softmax_forward", x.dim(0), stream), forward_kernel<T>, x, mask, factor, y);
}

template <typename T>
void softmax_backward(cudaStream_t stream, Matrix<const T> y, Matrix<const T> dy, float factor,
                      Matrix<T> dx) {
  launch(warp_rows("softmax_backward", y.dim(0), stream), backward_kernel<T>, y, dy, factor, dx);
}

HLITE_KERNELS(softmax) {
  for_each_float([&]<typename T>() {
    list.add<softmax_forward<T>>(kernels::softmax_forward<T>);
    list.add<softmax_backward<T>>(kernels::softmax_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
