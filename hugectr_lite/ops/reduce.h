// Sums along one axis of a tensor, and their gradient, which repeats along it: ReduceSum,
// ReduceMean, and with an axis of length 1 a multiple. Of histories, those of their valid rows.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {

// What counts along the axis: all, or the valid rows [O]; `mean` divides by their number, or by 1
// where there are none.
struct CountedRows {
  Vector<const float> lengths = {};
  bool mean = false;
  [[nodiscard]] HLITE_HD float scale(float of, int64_t count) const {
    return mean && count > 1 ? of / static_cast<float>(count) : of;
  }
};

// y[o,j] = scale (x[o,0,j] + ... + x[o,n-1,j]); x [O,n,J], y [O,J], overwritten; n = 0 gives zeros.
// T: float, or on a GPU bf16 or fp16 too; sums are float, in an order that follows from the shape
// alone. y does not overlap x.
template <typename T = float>
void reduce_axis(const Exec& exec, ViewOf<const T, 3> x, float scale, MatrixOf<T> y,
                 const CountedRows& rows = {});

// x[o,i,j] = scale y[o,j], or 0 in rows that do not count. Shapes and T as above; where n = 1, x
// may be y.
template <typename T = float>
void broadcast_axis(const Exec& exec, MatrixOf<const T> y, float scale, ViewOf<T, 3> x,
                    const CountedRows& rows = {});

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::reduce_axis<T>)> reduce_axis{"reduce_axis"};
template <typename T>
inline const KernelOf<decltype(ops::broadcast_axis<T>)> broadcast_axis{"broadcast_axis"};
}  // namespace kernels

}  // namespace hlite::ops
