#include "hugectr_lite/ops/batch_norm.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/batch_norm_columns.h"
#include "hugectr_lite/ops/column_terms_loops.h"

namespace hlite::ops {
namespace {

void check_sums(const char* op, View<const double, 3> sums, const ColumnStatistics& s) {
  HLITE_CHECK(sums.dim(1) == 2 && sums.dim(2) == s.mean.dim(0), "{}: sums {}, statistics {}", op,
              sums.shape(), s.mean.shape());
}
void check_running(const RunningStatistics& running, const ColumnStatistics& s) {
  HLITE_CHECK(running.mean.dim(0) == s.mean.dim(0) && running.variance.dim(0) == s.mean.dim(0),
              "running values {}, {} of {} columns", running.mean.shape(), running.variance.shape(),
              s.mean.dim(0));
}

}  // namespace

template <typename T>
void batch_norm_sums(const Exec& exec, MatrixOf<const T> x, Vector<double> workspace,
                     Matrix<double> sums) {
  sum_terms(exec, batch_norm::ValueTerms<T>{x}, x.dim(0), x.dim(1), workspace, sums);
}

template <typename T>
void batch_norm_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                              const ColumnStatistics& statistics, Vector<double> workspace,
                              Matrix<double> sums) {
  check_columns<T>("batch_norm_gradient_sums", x, dy, statistics.mean);
  sum_terms(exec, batch_norm::BatchNormGradientTerms<T>{x, dy, statistics}, x.dim(0), x.dim(1),
            workspace, sums);
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
void batch_norm_forward(const Exec& exec, MatrixOf<const T> x, const ColumnStatistics& statistics,
                        Vector<const float> gamma, Vector<const float> beta, MatrixOf<T> y) {
  check_columns<T>("batch_norm_forward", x, y, statistics.mean);
  for_each_element(exec, batch_norm::BatchNormForward<T>{x, statistics, gamma, beta, y}, x.dim(0),
                   x.dim(1));
}

template <typename T>
void batch_norm_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         const ColumnStatistics& statistics, Vector<const float> gamma,
                         MatrixOf<T> dx) {
  check_columns<T>("batch_norm_backward", x, dy, statistics.mean);
  check_columns<T>("batch_norm_backward", x, dx, statistics.mean);
  for_each_element(exec, batch_norm::BatchNormBackward<T>{x, dy, statistics, gamma, dx}, x.dim(0),
                   x.dim(1));
}

HLITE_INSTANTIATE_FLOATS(batch_norm_sums)
HLITE_INSTANTIATE_FLOATS(batch_norm_gradient_sums)
HLITE_INSTANTIATE_FLOATS(batch_norm_forward)
HLITE_INSTANTIATE_FLOATS(batch_norm_backward)

}  // namespace hlite::ops
