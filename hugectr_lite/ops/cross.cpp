#include "hugectr_lite/ops/cross.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_column_sums.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

// [B,n], or [B,1] for numbers of samples.
template <typename A, typename B>
void check_cross(const char* op, Matrix<A> x0, Matrix<B> other, bool numbers = false) {
  HLITE_CHECK(other.dim(0) == x0.dim(0) && other.dim(1) == (numbers ? 1 : x0.dim(1)),
              "{}: x0 {}, and {}", op, x0.shape(), other.shape());
}

template <typename T>
void check_cross_input(const char* op, Matrix<const T> x0, const CrossInput<T>& input) {
  if (input.dx0.data()) check_cross(op, x0, input.dx0);
}

// dx0[j] of a sample, where `term` comes in.
template <typename T>
void gather(const CrossInput<T>& input, int64_t row, int64_t j, float g, float term) {
  T& to = input.dx0.row(row)[j];
  to = from_float<T>((input.first ? 0.0f : to_float(to)) + term + (input.last ? g : 0.0f));
}

// body(row) on the threads.
template <typename T, typename Body>
void for_each_sample(const Exec& exec, const char* op, int64_t rows, int64_t columns, Body&& body) {
  wide_for<T>(exec, op, rows, kElementGrain / (columns + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace

template <typename T>
void cross_forward(const Exec& exec, MatrixOf<const T> x0, MatrixOf<const T> h, MatrixOf<const T> x,
                   MatrixOf<T> y) {
  constexpr const char* kName = "cross_forward";
  check_cross(kName, x0, h);
  check_cross(kName, x0, x);
  check_cross(kName, x0, y);
  if (exec.on_gpu()) return kernels::cross_forward<T>(exec, x0, h, x, y);
  const int64_t n = x0.dim(1);
  for_each_sample<T>(exec, kName, x0.dim(0), n, [&](int64_t row) {
    const T *const first = x0.row(row), *const factor = h.row(row), *const from = x.row(row);
    T* const to = y.row(row);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j)
      to[j] = from_float<T>(to_float(first[j]) * to_float(factor[j]) + to_float(from[j]));
  });
}

template <typename T>
void vector_cross_forward(const Exec& exec, MatrixOf<const T> x0, MatrixOf<const T> a,
                          VectorOf<const T> b, MatrixOf<const T> x, MatrixOf<T> y) {
  constexpr const char* kName = "vector_cross_forward";
  check_cross(kName, x0, a, true);
  check_cross(kName, x0, x);
  check_cross(kName, x0, y);
  HLITE_CHECK(b.dim(0) == x0.dim(1), "{}: x0 {}, b {}", kName, x0.shape(), b.shape());
  if (exec.on_gpu()) return kernels::vector_cross_forward<T>(exec, x0, a, b, x, y);
  const int64_t n = x0.dim(1);
  for_each_sample<T>(exec, kName, x0.dim(0), n, [&](int64_t row) {
    const float factor = to_float(*a.row(row));
    const T *const first = x0.row(row), *const from = x.row(row), *const bias = b.data();
    T* const to = y.row(row);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j)
      to[j] = from_float<T>(factor * to_float(first[j]) + to_float(bias[j]) + to_float(from[j]));
  });
}

template <typename T>
void cross_backward(const Exec& exec, MatrixOf<const T> g, MatrixOf<const T> x0, MatrixOf<T> h,
                    const CrossInput<std::type_identity_t<T>>& input, Vector<float> db) {
  constexpr const char* kName = "cross_backward";
  check_cross(kName, x0, g);
  check_cross(kName, x0, h);
  check_cross_input(kName, x0, input);
  HLITE_CHECK(db.dim(0) == x0.dim(1), "{}: x0 {}, db {}", kName, x0.shape(), db.shape());
  HLITE_CHECK(!exec.on_gpu() || exec.matmul != nullptr, "{} on a GPU needs a MatmulContext", kName);
  if (exec.on_gpu()) return kernels::cross_backward<T>(exec, g, x0, h, input, db);
  const int64_t n = x0.dim(1);
  sum_columns(
      cpu_threads_for<T>(exec, kName), x0.dim(0), n, db.data(), [&](int64_t row, float* sums) {
        const T *const above = g.row(row), *const first = x0.row(row);
        T* const factor = h.row(row);
        if (input.dx0.data())
          for (int64_t j = 0; j < n; ++j)
            gather(input, row, j, to_float(above[j]), to_float(above[j]) * to_float(factor[j]));
        for (int64_t j = 0; j < n; ++j) {
          const float s = to_float(above[j]) * to_float(first[j]);
          sums[j] += s;
          factor[j] = from_float<T>(s);
        }
      });
}

template <typename T>
void vector_cross_backward(const Exec& exec, MatrixOf<const T> g, MatrixOf<const T> x0,
                           MatrixOf<const T> a, const CrossInput<std::type_identity_t<T>>& input,
                           MatrixOf<T> p) {
  constexpr const char* kName = "vector_cross_backward";
  check_cross(kName, x0, g);
  check_cross(kName, x0, a, true);
  check_cross(kName, x0, p, true);
  check_cross_input(kName, x0, input);
  if (exec.on_gpu()) return kernels::vector_cross_backward<T>(exec, g, x0, a, input, p);
  const int64_t n = x0.dim(1);
  for_each_sample<T>(exec, kName, x0.dim(0), n, [&](int64_t row) {
    const T *const above = g.row(row), *const first = x0.row(row);
    const float factor = to_float(*a.row(row));
    *p.row(row) = from_float<T>(
        row_sum(n, [&](int64_t j) { return to_float(above[j]) * to_float(first[j]); }));
    if (input.dx0.data())
      for (int64_t j = 0; j < n; ++j)
        gather(input, row, j, to_float(above[j]), factor * to_float(above[j]));
  });
}

HLITE_INSTANTIATE_FLOATS(cross_forward)
HLITE_INSTANTIATE_FLOATS(vector_cross_forward)
HLITE_INSTANTIATE_FLOATS(cross_backward)
HLITE_INSTANTIATE_FLOATS(vector_cross_backward)

}  // namespace hlite::ops
