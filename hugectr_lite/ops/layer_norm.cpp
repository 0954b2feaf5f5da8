#include "hugectr_lite/ops/layer_norm.h"

#include <cmath>

#include "hugectr_lite/ops/column_terms_loops.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

template <typename T>
void check_layer_norm(const char* op, Matrix<const T> x, Matrix<const T> other,
                      Matrix<const float> statistics) {
  HLITE_CHECK(x.dim(0) == other.dim(0) && x.dim(1) == other.dim(1) &&
                  statistics.dim(0) == x.dim(0) && statistics.dim(1) == 2,
              "{}: {}, {}, statistics {}", op, x.shape(), other.shape(), statistics.shape());
}

void check_gamma(const char* op, int64_t n, const Vector<const float>& gamma) {
  HLITE_CHECK(gamma.dim(0) > 0 && gamma.dim(0) % n == 0, "{}: rows of {}, gamma {}", op, n,
              gamma.shape());
}

}  // namespace

template <typename T>
void layer_norm_forward(const Exec& exec, MatrixOf<const T> x, Vector<const float> gamma,
                        Vector<const float> beta, float epsilon, Matrix<float> statistics,
                        MatrixOf<T> y) {
  constexpr const char* kName = "layer_norm_forward";
  check_layer_norm<T>(kName, x, y, statistics);
  const int64_t n = x.dim(1);
  check_gamma(kName, n, gamma);
  HLITE_CHECK(beta.dim(0) == gamma.dim(0), "{}: gamma {}, beta {}", kName, gamma.shape(),
              beta.shape());
  if (exec.on_gpu())
    return kernels::layer_norm_forward<T>(exec, x, gamma, beta, epsilon, statistics, y);
  for_each_row(exec, kName, x.dim(0), 4 * n, [&](int64_t row) {
    const T* const from = x.row(row);
    T* const to = y.row(row);
    const auto count = static_cast<float>(n);
    const float mean = row_sum(n, [&](int64_t j) { return to_float(from[j]); }) / count;
    const float variance = row_sum(n,
                                   [&](int64_t j) {
                                     const float off = to_float(from[j]) - mean;
                                     return off * off;
                                   }) /
                           count;
    const float rate = 1 / std::sqrt(variance + epsilon);
    const int64_t of = row * n % gamma.dim(0);
    const float *const scale = gamma.data() + of, *const shift = beta.data() + of;
    for (int64_t j = 0; j < n; ++j)
      to[j] = from_float<T>(scale[j] * ((to_float(from[j]) - mean) * rate) + shift[j]);
    statistics.row(row)[0] = mean;
    statistics.row(row)[1] = rate;
  });
}

template <typename T>
void layer_norm_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         Matrix<const float> statistics, Vector<const float> gamma,
                         MatrixOf<T> dx) {
  constexpr const char* kName = "layer_norm_backward";
  check_layer_norm<T>(kName, x, dy, statistics);
  check_layer_norm<T>(kName, x, dx, statistics);
  const int64_t n = x.dim(1);
  check_gamma(kName, n, gamma);
  if (exec.on_gpu()) return kernels::layer_norm_backward<T>(exec, x, dy, statistics, gamma, dx);
  for_each_row(exec, kName, x.dim(0), 4 * n, [&](int64_t row) {
    const T *const from = x.row(row), *const above = dy.row(row);
    T* const to = dx.row(row);
    const float mean = statistics.row(row)[0], rate = statistics.row(row)[1];
    const float* const scale = gamma.data() + row * n % gamma.dim(0);
    const auto g = [&](int64_t j) { return scale[j] * to_float(above[j]); };
    const auto x_hat = [&](int64_t j) { return (to_float(from[j]) - mean) * rate; };
    const auto count = static_cast<float>(n);
    const float mean_g = row_sum(n, g) / count;
    const float mean_gx = row_sum(n, [&](int64_t j) { return g(j) * x_hat(j); }) / count;
    for (int64_t j = 0; j < n; ++j)
      to[j] = from_float<T>(rate * (g(j) - mean_g - x_hat(j) * mean_gx));
  });
}

template <typename T>
void layer_norm_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                              Matrix<const float> statistics, Vector<double> workspace,
                              Matrix<double> sums) {
  const int64_t groups = x.dim(0) > 0 ? statistics.dim(0) / x.dim(0) : 1;
  check_layer_norm<T>("layer_norm_gradient_sums", x, dy,
                      {statistics.data(), statistics.dim(0) / groups, statistics.dim(1)});
  HLITE_CHECK(statistics.dim(0) == x.dim(0) * groups && x.dim(1) % groups == 0,
              "layer_norm_gradient_sums: {}, statistics {}", x.shape(), statistics.shape());
  sum_terms(exec, layer_norm::GradientTerms<T>{x, dy, statistics, groups}, x.dim(0), x.dim(1),
            workspace, sums);
}

HLITE_INSTANTIATE_FLOATS(layer_norm_forward)
HLITE_INSTANTIATE_FLOATS(layer_norm_backward)
HLITE_INSTANTIATE_FLOATS(layer_norm_gradient_sums)

}  // namespace hlite::ops
