#include "hugectr_lite/ops/weight_multiply.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_column_sums.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

// x [B,S], w [S,V], y [B, S V], or their gradients.
template <typename X, typename W, typename Y>
void check_weight_multiply(const char* op, Matrix<X> x, Matrix<W> w, Matrix<Y> y) {
  HLITE_CHECK(x.dim(1) == w.dim(0) && y.dim(0) == x.dim(0) && y.dim(1) == w.size(),
              "{}: x {}, w {}, y {}", op, x.shape(), w.shape(), y.shape());
}

}  // namespace

template <typename T>
void weight_multiply_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                             MatrixOf<T> y) {
  constexpr const char* kName = "weight_multiply_forward";
  check_weight_multiply(kName, x, w, y);
  if (exec.on_gpu()) return kernels::weight_multiply_forward<T>(exec, x, w, y);
  const int64_t slots = w.dim(0), width = w.dim(1);
  wide_for<T>(exec, kName, y.dim(0), kElementGrain / (w.size() + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b)
                  for (int64_t s = 0; s < slots; ++s) {
                    const float value = to_float(x.row(b)[s]);
                    const T* const weights = w.row(s);
                    T* const out = y.row(b) + s * width;
                    for (int64_t v = 0; v < width; ++v)
                      out[v] = from_float<T>(value * to_float(weights[v]));
                  }
              });
}

template <typename T>
void weight_multiply_backward_data(const Exec& exec, MatrixOf<const T> dy, MatrixOf<const T> w,
                                   MatrixOf<T> dx) {
  constexpr const char* kName = "weight_multiply_backward_data";
  check_weight_multiply(kName, dx, w, dy);
  if (exec.on_gpu()) return kernels::weight_multiply_backward_data<T>(exec, dy, w, dx);
  const int64_t slots = w.dim(0), width = w.dim(1);
  wide_for<T>(
      exec, kName, dy.dim(0), kElementGrain / (w.size() + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          for (int64_t s = 0; s < slots; ++s) {
            const T* const from = dy.row(b) + s * width;
            const T* const weights = w.row(s);
            dx.row(b)[s] = from_float<T>(row_sum(
                width, [&](int64_t v) { return to_float(from[v]) * to_float(weights[v]); }));
          }
      });
}

template <typename T>
void weight_multiply_backward_weights(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                                      Matrix<float> dw) {
  constexpr const char* kName = "weight_multiply_backward_weights";
  check_weight_multiply(kName, x, dw, dy);
  HLITE_CHECK(!exec.on_gpu() || exec.matmul != nullptr, "{} on a GPU needs a MatmulContext", kName);
  if (exec.on_gpu()) return kernels::weight_multiply_backward_weights<T>(exec, x, dy, dw);
  const int64_t slots = dw.dim(0), width = dw.dim(1);
  sum_columns(cpu_threads_for<T>(exec, kName), dy.dim(0), dy.dim(1), dw.data(),
              [&](int64_t b, float* sums) {
                for (int64_t s = 0; s < slots; ++s) {
                  const float value = to_float(x.row(b)[s]);
                  const T* const from = dy.row(b) + s * width;
                  for (int64_t v = 0; v < width; ++v)
                    sums[s * width + v] += value * to_float(from[v]);
                }
              });
}

HLITE_INSTANTIATE_FLOATS(weight_multiply_forward)
HLITE_INSTANTIATE_FLOATS(weight_multiply_backward_data)
HLITE_INSTANTIATE_FLOATS(weight_multiply_backward_weights)

}  // namespace hlite::ops
