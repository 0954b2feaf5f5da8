#include "hugectr_lite/ops/dice.h"

#include "hugectr_lite/ops/column_terms_loops.h"

namespace hlite::ops {

template <typename T>
void dice_forward(const Exec& exec, MatrixOf<const T> x, const ColumnStatistics& statistics,
                  const DiceAlpha& alpha, MatrixOf<T> y) {
  check_columns<T>("dice_forward", x, y, statistics.mean);
  for_each_element(exec, dice::DiceForward<T>{x, statistics, alpha, y}, x.dim(0), x.dim(1));
}

template <typename T>
void dice_gradient_sums(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                        const ColumnStatistics& statistics, const DiceAlpha& alpha,
                        Vector<double> workspace, Matrix<double> sums) {
  check_columns<T>("dice_gradient_sums", x, dy, statistics.mean);
  sum_terms(exec, dice::DiceGradientTerms<T>{x, dy, statistics, alpha}, x.dim(0), x.dim(1),
            workspace, sums);
}

template <typename T>
void dice_alpha_gradient(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                         const ColumnStatistics& statistics, Vector<double> workspace,
                         Matrix<double> sums, Vector<float> dalpha) {
  check_columns<T>("dice_alpha_gradient", x, dy, dalpha);
  sum_terms(exec, dice::DiceAlphaTerms<T>{x, dy, statistics}, x.dim(0), x.dim(1), workspace, sums);
  for_each_column(exec, dice::DiceAlphaGradient{sums, dalpha}, x.dim(1));
}

template <typename T>
void dice_backward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dy,
                   const ColumnStatistics& statistics, const DiceAlpha& alpha, MatrixOf<T> dx) {
  check_columns<T>("dice_backward", x, dy, statistics.mean);
  check_columns<T>("dice_backward", x, dx, statistics.mean);
  for_each_element(exec, dice::DiceBackward<T>{x, dy, statistics, alpha, dx}, x.dim(0), x.dim(1));
}

HLITE_INSTANTIATE_FLOATS(dice_forward)
HLITE_INSTANTIATE_FLOATS(dice_gradient_sums)
HLITE_INSTANTIATE_FLOATS(dice_alpha_gradient)
HLITE_INSTANTIATE_FLOATS(dice_backward)

}  // namespace hlite::ops
