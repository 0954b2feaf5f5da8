#include "hugectr_lite/ops/dice.h"

#include "hugectr_lite/ops/column_terms_loops.h"

namespace hlite::ops {
namespace {

template <typename T>
void check_dice(const char* op, Matrix<const T> x, Matrix<const T> other,
                const ColumnStatistics& s) {
  HLITE_CHECK(x.dim(0) == other.dim(0) && x.dim(1) == other.dim(1) && x.dim(1) == s.mean.dim(0),
              "{}: {}, {}, statistics {}", op, x.shape(), other.shape(), s.mean.shape());
}

}  // namespace

template <typename T>
void dice_forward(const Exec& exec, MatrixOf<const T> x, const ColumnStatistics& statistics,
                  float alpha, MatrixOf<T> y) {
  check_dice<T>("dice_forward", x, y, statistics);
  for_each_element(exec, dice::Forward<T>{x, statistics, alpha, y}, x.dim(0), x.dim(1));
}

template <typename T>
void dice_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                        const ColumnStatistics& statistics, float alpha, Vector<double> workspace,
                        Matrix<double> sums) {
  check_dice<T>("dice_gradient_sums", x, dy, statistics);
  sum_terms(exec, dice::GradientTerms<T>{x, dy, statistics, alpha}, x.dim(0), x.dim(1), workspace,
            sums);
}

template <typename T>
void dice_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                   const ColumnStatistics& statistics, float alpha, MatrixOf<T> dx) {
  check_dice<T>("dice_backward", x, dy, statistics);
  check_dice<T>("dice_backward", x, dx, statistics);
  for_each_element(exec, dice::Backward<T>{x, dy, statistics, alpha, dx}, x.dim(0), x.dim(1));
}

HLITE_INSTANTIATE_FLOATS(dice_forward)
HLITE_INSTANTIATE_FLOATS(dice_gradient_sums)
HLITE_INSTANTIATE_FLOATS(dice_backward)

}  // namespace hlite::ops
