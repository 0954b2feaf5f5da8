#include "hugectr_lite/ops/reduce.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"

namespace hlite::ops {
namespace {

template <typename T>
void reduce_on_cpu(const Exec& exec, View<const T, 3> x, float scale, Matrix<T> y,
                   const CountedRows& rows) {
  constexpr int64_t kReduceChunk = 256;  // columns whose sums live in L1
  const int64_t columns = x.dim(2);
  const auto reduce_columns = [&](int64_t o, int64_t n, float factor) {
    for (int64_t begin = 0; begin < columns; begin += kReduceChunk) {
      const int64_t width = std::min(kReduceChunk, columns - begin);
      float sums[kReduceChunk] = {};
      for (int64_t i = 0; i < n; ++i) {
        const T* const from = x.row(o) + i * columns + begin;
        for (int64_t j = 0; j < width; ++j) sums[j] += to_float(from[j]);
      }
      for (int64_t j = 0; j < width; ++j) y.row(o)[begin + j] = from_float<T>(factor * sums[j]);
    }
  };
  wide_for<T>(exec, "reduce_axis", x.dim(0), kElementGrain / (x.dim(1) * columns + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t o = begin; o < end; ++o) {
                  const int64_t n = valid_rows(rows.lengths, o, x.dim(1));
                  const float factor = rows.scale(scale, n);
                  if (columns == 1)
                    *y.row(o) = from_float<T>(
                        factor * row_sum(n, [&](int64_t i) { return to_float(x.row(o)[i]); }));
                  else
                    reduce_columns(o, n, factor);
                }
              });
}

template <typename T>
void broadcast_on_cpu(const Exec& exec, Matrix<const T> y, float scale, View<T, 3> x,
                      const CountedRows& rows) {
  const int64_t n = x.dim(1), columns = x.dim(2);
  wide_for<T>(exec, "broadcast_axis", x.dim(0) * n, kElementGrain / (columns + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const int64_t count = valid_rows(rows.lengths, row / n, n);
                  const float factor = rows.scale(scale, count);
                  const T* const from = y.row(row / n);
                  T* const to = x.data() + row * columns;
                  if (row % n >= count)
                    std::fill_n(to, columns, from_float<T>(0));
                  else
                    for (int64_t j = 0; j < columns; ++j)
                      to[j] = from_float<T>(factor * to_float(from[j]));
                }
              });
}

template <typename T>
void check_reduce(const char* op, View<const T, 3> x, Matrix<const T> y, const CountedRows& rows) {
  HLITE_CHECK(x.dim(0) == y.dim(0) && x.dim(2) == y.dim(1) &&
                  (!rows.lengths.data() || rows.lengths.dim(0) == x.dim(0)),
              "{}: x {}, y {}, lengths {}", op, x.shape(), y.shape(), rows.lengths.shape());
}

}  // namespace

template <typename T>
void reduce_axis(const Exec& exec, ViewOf<const T, 3> x, float scale, MatrixOf<T> y,
                 const CountedRows& rows) {
  check_reduce<T>("reduce_axis", x, y, rows);
  if (exec.on_gpu()) return kernels::reduce_axis<T>(exec, x, scale, y, rows);
  reduce_on_cpu<T>(exec, x, scale, y, rows);
}

template <typename T>
void broadcast_axis(const Exec& exec, MatrixOf<const T> y, float scale, ViewOf<T, 3> x,
                    const CountedRows& rows) {
  check_reduce<T>("broadcast_axis", x, y, rows);
  if (exec.on_gpu()) return kernels::broadcast_axis<T>(exec, y, scale, x, rows);
  broadcast_on_cpu<T>(exec, y, scale, x, rows);
}

HLITE_INSTANTIATE_FLOATS(reduce_axis)
HLITE_INSTANTIATE_FLOATS(broadcast_axis)

}  // namespace hlite::ops
