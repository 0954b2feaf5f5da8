// Kernels of layer normalisation: a warp for each row; sums down the columns by
// column_term_kernels.cuh.
#include "hugectr_lite/ops/layer_norm.h"

#include <cmath>

#include "hugectr_lite/ops/column_term_kernels.cuh"
#include "hugectr_lite/ops/warp_sum.cuh"

namespace hlite::ops::gpu {
namespace {

template <typename T>
__global__ void forward_kernel(Matrix<const T> x, Vector<const float> gamma,
                               Vector<const float> beta, float epsilon, Matrix<float> statistics,
                               Matrix<T> y) {
  const int64_t n = x.dim(1);
  const auto count = static_cast<float>(n);
  for_each_warp_row(x.dim(0), [&](int64_t row) {
    const T* const from = x.row(row);
    float sum = 0, squares = 0;
    for (int64_t j = threadIdx.x; j < n; j += kWarp) sum += to_float(from[j]);
    const float mean = warp_sum(sum) / count;
    for (int64_t j = threadIdx.x; j < n; j += kWarp) {
      const float off = to_float(from[j]) - mean;
      squares += off * off;
    }
    const float rate = 1 / std::sqrt(warp_sum(squares) / count + epsilon);
    const int64_t of = row * n % gamma.dim(0);
    for (int64_t j = threadIdx.x; j < n; j += kWarp)
      y.row(row)[j] = from_float<T>(gamma.data()[of + j] * ((to_float(from[j]) - mean) * rate) +
                                    beta.data()[of + j]);
    if (threadIdx.x == 0) {
      statistics.row(row)[0] = mean;
      statistics.row(row)[1] = rate;
    }
  });
}

template <typename T>
__global__ void backward_kernel(Matrix<const T> x, Matrix<const T> dy,
                                Matrix<const float> statistics, Vector<const float> gamma,
                                Matrix<T> dx) {
  const int64_t n = x.dim(1);
  const auto count = static_cast<float>(n);
  for_each_warp_row(x.dim(0), [&](int64_t row) {
    const float mean = statistics.row(row)[0], rate = statistics.row(row)[1];
    const float* const scale = gamma.data() + row * n % gamma.dim(0);
    const auto g = [&](int64_t j) { return scale[j] * to_float(dy.row(row)[j]); };
    const auto x_hat = [&](int64_t j) { return (to_float(x.row(row)[j]) - mean) * rate; };
    float sum = 0, products = 0;
    for (int64_t j = threadIdx.x; j < n; j += kWarp) {
      sum += g(j);
      products += g(j) * x_hat(j);
    }
    const float mean_g = warp_sum(sum) / count, mean_gx = warp_sum(products) / count;
    for (int64_t j = threadIdx.x; j < n; j += kWarp)
      dx.row(row)[j] = from_float<T>(rate * (g(j) - mean_g - x_hat(j) * mean_gx));
  });
}

}  // namespace

template <typename T>
void layer_norm_forward(cudaStream_t stream, Matrix<const T> x, Vector<const float> gamma,
                        Vector<const float> beta, float epsilon, Matrix<float> statistics,
                        Matrix<T> y) {
  launch(warp_rows("layer_norm_forward", x.dim(0), stream), forward_kernel<T>, x, gamma, beta,
         epsilon, statistics, y);
}

template <typename T>
void layer_norm_backward(cudaStream_t stream, Matrix<const T> x, Matrix<const T> dy,
                         Matrix<const float> statistics, Vector<const float> gamma, Matrix<T> dx) {
  launch(warp_rows("layer_norm_backward", x.dim(0), stream), backward_kernel<T>, x, dy, statistics,
         gamma, dx);
}

HLITE_KERNELS(layer_norm) {
  for_each_float([&]<typename T>() {
    list.add<layer_norm_forward<T>>(kernels::layer_norm_forward<T>);
    list.add<layer_norm_backward<T>>(kernels::layer_norm_backward<T>);
    add_sums<layer_norm::GradientTerms<T>>(list);
  });
}

}  // namespace hlite::ops::gpu
