// Tensors put together from blocks of columns: Concat and its gradients, Slice and its gradient, a
// Reshape of selected slots and its gradient.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Columns [from_begin, from_begin + columns) of `from`, to go to column `to_begin` on.
template <typename T>
struct ColumnBlock {
  Matrix<const T> from;
  int64_t from_begin = 0, to_begin = 0, columns = 0;
};

// Every column of out [B,w] is overwritten: with the sum of the blocks that cover it, added in
// their order, or with 0 where none does. All matrices have B rows; `out` overlaps no input. T:
// float, bf16, or on a GPU fp16 (summed in float; on a GPU rounded to T after every 64 blocks).
template <typename T = float>
void concat_columns(const Exec& exec, std::span<const ColumnBlock<std::type_identity_t<T>>> blocks,
                    MatrixOf<T> out);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::concat_columns<T>)> concat_columns{"concat_columns"};
}  // namespace kernels

}  // namespace hlite::ops
