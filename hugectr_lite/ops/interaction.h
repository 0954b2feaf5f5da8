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
//   dinput[r] = sum over c of s[r][c] * input[c],  and the bottom vector adds dout's columns [0,
//   V).
#pragma once

#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
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

// T: float, or on a GPU bf16 or fp16 too. bottom [B,V], slots [B,n,V], out [B, interaction_width(n,
// V)] overwritten. n >= 0, V >= 1.
template <typename T = float>
void interaction_forward(const Exec& exec, Matrix<const std::type_identity_t<T>> bottom,
                         View<const std::type_identity_t<T>, 3> slots,
                         Matrix<std::type_identity_t<T>> out);

// dbottom [B,V] and dslots [B,n,V] are overwritten and overlap no input. dout's pad column is
// ignored.
template <typename T = float>
void interaction_backward(const Exec& exec, Matrix<const std::type_identity_t<T>> bottom,
                          View<const std::type_identity_t<T>, 3> slots,
                          Matrix<const std::type_identity_t<T>> dout,
                          Matrix<std::type_identity_t<T>> dbottom,
                          View<std::type_identity_t<T>, 3> dslots);

}  // namespace hlite::ops
