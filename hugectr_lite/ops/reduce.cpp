#include "hugectr_lite/ops/reduce.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

template <typename T>
void reduce_on_cpu(const Exec& exec, View<const T, 3> x, float scale, Matrix<T> y) {
  constexpr int64_t kReduceChunk = 256;  // columns whose sums live in L1
  const int64_t n = x.dim(1), columns = x.dim(2);
  const auto reduce_columns = [&](int64_t o) {
    for (int64_t begin = 0; begin < columns; begin += kReduceChunk) {
      const int64_t width = std::min(kReduceChunk, columns - begin);
      float sums[kReduceChunk] = {};
      for (int64_t i = 0; i < n; ++i) {
        const T* const from = x.row(o) + i * columns + begin;
        for (int64_t j = 0; j < width; ++j) sums[j] += to_float(from[j]);
      }
      for (int64_t j = 0; j < width; ++j) y.row(o)[begin + j] = from_float<T>(scale * sums[j]);
    }
  };
  wide_for<T>(exec, "reduce_axis", x.dim(0), kElementGrain / (n * columns + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t o = begin; o < end; ++o)
                  if (columns == 1)
                    *y.row(o) = from_float<T>(
                        scale * row_sum(n, [&](int64_t i) { return to_float(x.row(o)[i]); }));
                  else
                    reduce_columns(o);
              });
}

template <typename T>
void broadcast_on_cpu(const Exec& exec, Matrix<const T> y, float scale, View<T, 3> x) {
  const int64_t n = x.dim(1), columns = x.dim(2);
  wide_for<T>(exec, "broadcast_axis", x.dim(0) * n, kElementGrain / (columns + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const T* const from = y.row(row / n);
                  T* const to = x.data() + row * columns;
                  for (int64_t j = 0; j < columns; ++j)
                    to[j] = from_float<T>(scale * to_float(from[j]));
                }
              });
}

template <typename T>
void check_reduce(const char* op, View<const T, 3> x, Matrix<const T> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0) && x.dim(2) == y.dim(1), "{}: x {}, y {}", op, x.shape(),
              y.shape());
}

}  // namespace

template <typename T>
void reduce_axis(const Exec& exec, ViewOf<const T, 3> x, float scale, MatrixOf<T> y) {
  check_reduce<T>("reduce_axis", x, y);
  if (exec.on_gpu()) return kernels::reduce_axis<T>(exec, x, scale, y);
  reduce_on_cpu<T>(exec, x, scale, y);
}

template <typename T>
void broadcast_axis(const Exec& exec, MatrixOf<const T> y, float scale, ViewOf<T, 3> x) {
  check_reduce<T>("broadcast_axis", x, y);
  if (exec.on_gpu()) return kernels::broadcast_axis<T>(exec, y, scale, x);
  broadcast_on_cpu<T>(exec, y, scale, x);
}

HLITE_INSTANTIATE_FLOATS(reduce_axis)
HLITE_INSTANTIATE_FLOATS(broadcast_axis)

}  // namespace hlite::ops
