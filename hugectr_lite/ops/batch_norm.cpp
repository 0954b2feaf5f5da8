#include "hugectr_lite/ops/batch_norm.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "hugectr_lite/ops/batch_norm_columns.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// sums [2,n] of F's terms: in each part row after row, then part after part.
template <typename F>
void sum_terms(const Exec& exec, const F& f, int64_t rows, int64_t n, Vector<double> workspace,
               Matrix<double> sums) {
  HLITE_CHECK(workspace.size() >= batch_norm_workspace(n) && sums.dim(0) == 2 && sums.dim(1) == n,
              "{}: {} columns, workspace {}, sums {}", F::kName, n, workspace.shape(),
              sums.shape());
  if (exec.on_gpu())
    return kernels::batch_norm_sums<F>(exec, f, rows, n, workspace.data(), sums.data());
  cpu_threads(exec, F::kName)
      .parallel_for(kBatchNormParts, kElementGrain * kBatchNormParts / (rows * n + 1) + 1,
                    [&](int64_t first, int64_t last) {
                      for (int64_t p = first; p < last; ++p) {
                        double* const a = workspace.data() + p * 2 * n;
                        double* const b = a + n;
                        std::fill_n(a, 2 * n, 0.0);
                        const int64_t end = rows * (p + 1) / kBatchNormParts;
                        for (int64_t row = rows * p / kBatchNormParts; row < end; ++row)
                          for (int64_t j = 0; j < n; ++j) {
                            const batch_norm::Terms t = f(row, j);
                            a[j] += t.first;
                            b[j] += t.second;
                          }
                      }
                    });
  std::fill_n(sums.data(), 2 * n, 0.0);
  for (int64_t p = 0; p < kBatchNormParts; ++p)
    for (int64_t i = 0; i < 2 * n; ++i) sums.data()[i] += workspace.data()[p * 2 * n + i];
}

template <typename F>
void for_each_element(const Exec& exec, const F& f, int64_t rows, int64_t n) {
  if (exec.on_gpu()) return kernels::batch_norm_elements<F>(exec, f, rows, n);
  cpu_threads(exec, F::kName)
      .parallel_for(rows, kElementGrain / (n + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          for (int64_t j = 0; j < n; ++j) f(row * n + j, j);
      });
}

// A few operations for each of a few hundred columns: not worth waking a thread.
template <typename F>
void for_each_column(const Exec& exec, const F& f, int64_t n) {
  if (exec.on_gpu()) return kernels::batch_norm_columns<F>(exec, f, n);
  for (int64_t j = 0; j < n; ++j) f(j);
}

void check_sums(const char* op, View<const double, 3> sums, const ColumnStatistics& s) {
  HLITE_CHECK(sums.dim(1) == 2 && sums.dim(2) == s.mean.dim(0), "{}: sums {}, statistics {}", op,
              sums.shape(), s.mean.shape());
}
void check_running(const RunningStatistics& running, const ColumnStatistics& s) {
  HLITE_CHECK(running.mean.dim(0) == s.mean.dim(0) && running.variance.dim(0) == s.mean.dim(0),
              "running values {}, {} of {} columns", running.mean.shape(), running.variance.shape(),
              s.mean.dim(0));
}
template <typename T>
void check_columns(const char* op, Matrix<const T> x, Matrix<const T> y,
                   const ColumnStatistics& s) {
  HLITE_CHECK(x.dim(0) == y.dim(0) && x.dim(1) == y.dim(1) && x.dim(1) == s.mean.dim(0),
              "{}: {}, {}, statistics {}", op, x.shape(), y.shape(), s.mean.shape());
}

}  // namespace

template <typename T>
void batch_norm_sums(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                     Vector<double> workspace, Matrix<double> sums) {
  sum_terms(exec, batch_norm::ValueTerms<T>{x}, x.dim(0), x.dim(1), workspace, sums);
}

template <typename T>
void batch_norm_gradient_sums(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                              Matrix<const std::type_identity_t<T>> dy,
                              const ColumnStatistics& statistics, Vector<double> workspace,
                              Matrix<double> sums) {
  check_columns<T>("batch_norm_gradient_sums", x, dy, statistics);
  sum_terms(exec, batch_norm::GradientTerms<T>{x, dy, statistics}, x.dim(0), x.dim(1), workspace,
            sums);
}

void batch_norm_statistics(const Exec& exec, View<const double, 3> sums, int64_t rows,
                           double epsilon, const ColumnStatistics& to) {
  check_sums("batch_norm_statistics", sums, to);
  for_each_column(exec, batch_norm::FromSums{sums, static_cast<double>(rows), epsilon, to},
                  sums.dim(2));
}

void running_statistics(const Exec& exec, const RunningStatistics& running, double epsilon,
                        const ColumnStatistics& to) {
  check_running(running, to);
  for_each_column(exec, batch_norm::FromRunning{running, epsilon, to}, to.mean.dim(0));
}

void batch_norm_gradient_means(const Exec& exec, View<const double, 3> sums, int64_t rows,
                               const ColumnStatistics& to) {
  check_sums("batch_norm_gradient_means", sums, to);
  for_each_column(exec, batch_norm::GradientMeans{sums, static_cast<double>(rows), to},
                  sums.dim(2));
}

void batch_norm_parameter_gradients(const Exec& exec, Matrix<const double> sums,
                                    Vector<float> dgamma, Vector<float> dbeta) {
  HLITE_CHECK(sums.dim(0) == 2 && sums.dim(1) == dgamma.dim(0) && sums.dim(1) == dbeta.dim(0),
              "sums {}, dgamma {}, dbeta {}", sums.shape(), dgamma.shape(), dbeta.shape());
  for_each_column(exec, batch_norm::ParameterGradients{sums, dgamma, dbeta}, sums.dim(1));
}

void update_running(const Exec& exec, const ColumnStatistics& statistics,
                    const RunningUpdate& update, const RunningStatistics& running) {
  check_running(running, statistics);
  for_each_column(exec, batch_norm::Running{statistics, update, running}, statistics.mean.dim(0));
}

template <typename T>
void batch_norm_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                        const ColumnStatistics& statistics, Vector<const float> gamma,
                        Vector<const float> beta, Matrix<std::type_identity_t<T>> y) {
  check_columns<T>("batch_norm_forward", x, y, statistics);
  for_each_element(exec, batch_norm::Forward<T>{x, statistics, gamma, beta, y}, x.dim(0), x.dim(1));
}

template <typename T>
void batch_norm_backward(const Exec& exec, Matrix<const std::type_identity_t<T>> x,
                         Matrix<const std::type_identity_t<T>> dy,
                         const ColumnStatistics& statistics, Vector<const float> gamma,
                         Matrix<std::type_identity_t<T>> dx) {
  check_columns<T>("batch_norm_backward", x, dy, statistics);
  check_columns<T>("batch_norm_backward", x, dx, statistics);
  for_each_element(exec, batch_norm::Backward<T>{x, dy, statistics, gamma, dx}, x.dim(0), x.dim(1));
}

#define HLITE_INSTANTIATE(T)                                                                      \
  template void batch_norm_sums<T>(const Exec&, Matrix<const T>, Vector<double>, Matrix<double>); \
  template void batch_norm_gradient_sums<T>(const Exec&, Matrix<const T>, Matrix<const T>,        \
                                            const ColumnStatistics&, Vector<double>,              \
                                            Matrix<double>);                                      \
  template void batch_norm_forward<T>(const Exec&, Matrix<const T>, const ColumnStatistics&,      \
                                      Vector<const float>, Vector<const float>, Matrix<T>);       \
  template void batch_norm_backward<T>(const Exec&, Matrix<const T>, Matrix<const T>,             \
                                       const ColumnStatistics&, Vector<const float>, Matrix<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
