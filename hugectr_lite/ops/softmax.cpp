#include "hugectr_lite/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

template <typename T>
void check_softmax(const char* op, Matrix<const T> a, Matrix<const T> b) {
  HLITE_CHECK(a.dim(0) == b.dim(0) && a.dim(1) == b.dim(1), "{}: {} and {}", op, a.shape(),
              b.shape());
}

constexpr int64_t kOperations = 16;  // of an element: an exponential

}  // namespace

template <typename T>
void softmax_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> mask, float factor,
                     MatrixOf<T> y) {
  constexpr const char* kName = "softmax_forward";
  check_softmax<T>(kName, x, y);
  if (mask.data()) check_softmax<T>(kName, x, mask);
  if (exec.on_gpu()) return kernels::softmax_forward<T>(exec, x, mask, factor, y);
  const int64_t n = x.dim(1);
  for_each_row(exec, kName, x.dim(0), kOperations * n, [&](int64_t row) {
    const T *const from = x.row(row), *const seen = mask.data() ? mask.row(row) : nullptr;
    T* const to = y.row(row);
    const auto z = [&](int64_t j) {
      return factor * to_float(from[j]) + (seen && to_float(seen[j]) == 0 ? kSoftmaxMasked : 0.0f);
    };
    const auto counts = [](T m) { return to_float(m) != 0; };
    if (seen && std::none_of(seen, seen + n, counts)) {
      std::fill_n(to, n, from_float<T>(0));
      return;
    }
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < n; ++j) most = std::max(most, z(j));
    const float sum = row_sum(n, [&](int64_t j) { return std::exp(z(j) - most); });
    for (int64_t j = 0; j < n; ++j) to[j] = from_float<T>(std::exp(z(j) - most) / sum);
  });
}

template <typename T>
void softmax_backward(const Exec& exec, MatrixOf<const T> y, MatrixOf<const T> dy, float factor,
                      MatrixOf<T> dx) {
  constexpr const char* kName = "softmax_backward";
  check_softmax<T>(kName, y, dy);
  check_softmax<T>(kName, y, dx);
  if (exec.on_gpu()) return kernels::softmax_backward<T>(exec, y, dy, factor, dx);
  const int64_t n = y.dim(1);
  for_each_row(exec, kName, y.dim(0), kOperations * n, [&](int64_t row) {
    const T *const out = y.row(row), *const above = dy.row(row);
    T* const to = dx.row(row);
    const float sum = row_sum(n, [&](int64_t j) { return to_float(out[j]) * to_float(above[j]); });
    for (int64_t j = 0; j < n; ++j)
      to[j] = from_float<T>(factor * to_float(out[j]) * (to_float(above[j]) - sum));
  });
}

HLITE_INSTANTIATE_FLOATS(softmax_forward)
HLITE_INSTANTIATE_FLOATS(softmax_backward)

}  // namespace hlite::ops
