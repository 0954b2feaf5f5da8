// DLRM's feature interaction: dot products of all pairs of a sample's vectors.
//
// Input 0 of a sample is the bottom MLP's vector, inputs 1..n its slots' embedding vectors, each of
// width V. The output row holds, with n' = n + 1 and p = n'(n'-1)/2,
//
//   columns [0, V)          the bottom vector, verbatim
//   V + c(c-1)/2 + r        dot(input r, input c) for 0 <= r < c < n'
//   the last column, V + p  zero: it makes the width a multiple of 8 for the usual sizes
//
// Backward, with s[r][c] = s[c][r] = dout at pair (r, c) and s[r][r] = 0:
//   dinput[r] = sum over c of s[r][c] * input[c]; the bottom vector adds dout's columns [0, V).
#pragma once

#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Column of the dot product of inputs r < c in an output row.
HLITE_HD inline int64_t interaction_column(int64_t width, int64_t r, int64_t c) {
  return width + c * (c - 1) / 2 + r;
}

// Width of an output row: width + slots (slots + 1) / 2 + 1.
HLITE_HD inline int64_t interaction_width(int64_t slots, int64_t width) {
  return width + slots * (slots + 1) / 2 + 1;
}

// T: float, bf16, or on a GPU fp16; sums in float. bottom [B,V], slots [B,n,V], out [B,
// interaction_width(n, V)] overwritten. n >= 0, V >= 1.
template <typename T = float>
void interaction_forward(const Exec& exec, MatrixOf<const T> bottom, ViewOf<const T, 3> slots,
                         MatrixOf<T> out);

// Vectors of slots as rows of a table.
struct InteractionRows {
  Matrix<const float> table;       // [rows,V]
  Matrix<const uint32_t> numbers;  // [B,columns], of rows; a number that no row has: zeros
  int64_t first_column = 0;        // of the n that are the slots'
};

// Returns true if interaction_forward_of_rows() takes slots of this shape.
constexpr bool interaction_takes_rows(int64_t slots, int64_t width) {
  return slots < 64 && width > 0 && width % 16 == 0 && width <= 256;
}

// Returns true if so many bytes of slots are made in less time by interaction_forward_of_rows()
// than before interaction_forward(), where the network that makes `bottom` then runs beside: if
// they are more than twice what the L2 cache of `gpu` holds, and so would come back from memory.
// Null, or a GPU that is not here: one of 50 MB.
bool interaction_gains_by_rows(const cuda::Backend* gpu, int64_t bytes);

// interaction_forward() of slots that are still to be made: slots [B,n,V] are overwritten with the
// rows, rounded to T. The bits are those of the two done one after another. T: bf16 or fp16, on a
// GPU. REQUIRES a shape as above, and vectors and table at multiples of 16 bytes.
template <typename T>
void interaction_forward_of_rows(const Exec& exec, MatrixOf<const T> bottom,
                                 const InteractionRows& rows, ViewOf<T, 3> slots, MatrixOf<T> out);

// dbottom [B,V] and dslots [B,n,V] are overwritten and overlap no input, but on a GPU may be bottom
// and slots themselves. dout's pad column is ignored. The term s[r][r] * input[r] = 0 is left out
// or not, as suits the shape: it shows where an input is not finite. `gradient_overflow`, unless
// null, is in memory of the op's device: set to 1 if there is a NaN or infinity in dslots, and left
// otherwise, as flag_non_finite() would. relu: bottom is the output of a ReLU, and dbottom the
// gradient of its input, 0 where bottom > 0 is false.
template <typename T = float>
void interaction_backward(const Exec& exec, MatrixOf<const T> bottom, ViewOf<const T, 3> slots,
                          MatrixOf<const T> dout, MatrixOf<T> dbottom, ViewOf<T, 3> dslots,
                          int32_t* gradient_overflow = nullptr, bool relu = false);

// The launch of a kernel. For every max_blocks the bits are the same. shared_bytes decides which
// kernel takes a shape: one in which a warp has a sample in its share of them, else one that takes
// any shape by chunks of columns.
struct InteractionLaunch {
  int64_t shared_bytes = 48 * 1024;  // of a block, at most
  int64_t max_blocks = int64_t{1} << 20;
};

namespace kernels {
template <typename T>
inline const Kernel<void(Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/, Matrix<T> /*out*/,
                         const InteractionLaunch&)>
    interaction_forward{"interaction_forward"};
template <typename T>
inline const Kernel<void(Matrix<const T> /*bottom*/, const InteractionRows&, View<T, 3> /*slots*/,
                         Matrix<T> /*out*/, const InteractionLaunch&)>
    interaction_forward_of_rows{"interaction_forward_of_rows"};
inline const Kernel<int64_t()> interaction_l2_bytes{"interaction_l2_bytes"};
template <typename T>
inline const Kernel<void(Matrix<const T> /*bottom*/, View<const T, 3> /*slots*/,
                         Matrix<const T> /*dout*/, Matrix<T> /*dbottom*/, View<T, 3> /*dslots*/,
                         int32_t* /*gradient_overflow*/, bool /*relu*/, const InteractionLaunch&)>
    interaction_backward{"interaction_backward"};
}  // namespace kernels

}  // namespace hlite::ops
