// The bodies of column_terms.h, for the .cpp files of normalisations.
#pragma once

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/column_terms.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {

// Functions of two matrices of one shape, and what is known of each of their columns.
template <typename T>
void check_columns(const char* op, MatrixOf<const T> x, MatrixOf<const T> other,
                   Vector<const float> statistics) {
  HLITE_CHECK(x.dim(0) == other.dim(0) && x.dim(1) == other.dim(1) && x.dim(1) == statistics.dim(0),
              "{}: {}, {}, statistics {}", op, x.shape(), other.shape(), statistics.shape());
}

// sums [2,n] of F's terms: in each part row after row, then part after part.
template <typename F>
void sum_terms(const Exec& exec, const F& f, int64_t rows, int64_t n, Vector<double> workspace,
               Matrix<double> sums) {
  HLITE_CHECK(workspace.size() >= terms_workspace(n) && sums.dim(0) == 2 && sums.dim(1) == n,
              "{}: {} columns, workspace {}, sums {}", F::kName, n, workspace.shape(),
              sums.shape());
  if (exec.on_gpu()) return kernels::sum_terms<F>(exec, f, rows, n, workspace.data(), sums.data());
  cpu_threads(exec, F::kName)
      .parallel_for(kTermParts, kElementGrain * kTermParts / (rows * n + 1) + 1,
                    [&](int64_t first, int64_t last) {
                      for (int64_t p = first; p < last; ++p) {
                        double* const a = workspace.data() + p * 2 * n;
                        double* const b = a + n;
                        std::fill_n(a, 2 * n, 0.0);
                        const int64_t end = rows * (p + 1) / kTermParts;
                        for (int64_t row = rows * p / kTermParts; row < end; ++row)
                          for (int64_t j = 0; j < n; ++j) {
                            const Terms t = f(row, j);
                            a[j] += t.first;
                            b[j] += t.second;
                          }
                      }
                    });
  std::fill_n(sums.data(), 2 * n, 0.0);
  for (int64_t p = 0; p < kTermParts; ++p)
    for (int64_t i = 0; i < 2 * n; ++i) sums.data()[i] += workspace.data()[p * 2 * n + i];
}

template <typename F>
void for_each_element(const Exec& exec, const F& f, int64_t rows, int64_t n) {
  if (exec.on_gpu()) return kernels::for_each_element<F>(exec, f, rows, n);
  cpu_threads(exec, F::kName)
      .parallel_for(rows, kElementGrain / (n + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          for (int64_t j = 0; j < n; ++j) f(row * n + j, j);
      });
}

// A few operations for each of a few hundred columns: not worth waking a thread.
template <typename F>
void for_each_column(const Exec& exec, const F& f, int64_t n) {
  if (exec.on_gpu()) return kernels::for_each_column<F>(exec, f, n);
  for (int64_t j = 0; j < n; ++j) f(j);
}

}  // namespace hlite::ops
