#include "hugectr_lite/ops/concat.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// Calls body(from row, to row) for every row, with the pointers at the first of the columns.
template <typename Body>
void for_each_row(const Exec& exec, const char* op, Matrix<const float> from, int64_t from_begin,
                  Matrix<float> to, int64_t to_begin, int64_t columns, Body body) {
  HLITE_CHECK(from.dim(0) == to.dim(0) && columns >= 0, "{}: from {}, to {}, {} columns", op,
              from.shape(), to.shape(), columns);
  HLITE_CHECK(from_begin >= 0 && from_begin + columns <= from.dim(1),
              "{}: columns [{}, {}) of from {}", op, from_begin, from_begin + columns,
              from.shape());
  HLITE_CHECK(to_begin >= 0 && to_begin + columns <= to.dim(1), "{}: columns [{}, {}) of to {}", op,
              to_begin, to_begin + columns, to.shape());
  ThreadPool& threads = cpu_threads(exec, op);
  if (columns == 0) return;
  constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for
  threads.parallel_for(from.dim(0), kGrain / columns + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(from.row(i) + from_begin, to.row(i) + to_begin);
  });
}

}  // namespace

void copy_columns(const Exec& exec, Matrix<const float> from, int64_t from_begin, Matrix<float> to,
                  int64_t to_begin, int64_t columns) {
  for_each_row(
      exec, "copy_columns", from, from_begin, to, to_begin, columns,
      [columns](const float* source, float* target) { std::copy_n(source, columns, target); });
}

void add_columns(const Exec& exec, Matrix<const float> from, int64_t from_begin, Matrix<float> to,
                 int64_t to_begin, int64_t columns) {
  for_each_row(exec, "add_columns", from, from_begin, to, to_begin, columns,
               [columns](const float* source, float* target) {
                 for (int64_t j = 0; j < columns; ++j) target[j] += source[j];
               });
}

}  // namespace hlite::ops
