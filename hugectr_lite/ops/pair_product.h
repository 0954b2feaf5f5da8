// A product of pairs: rows h of histories (packed_rows.h), each with its sample's q, as
// [q, h, q - h, q * h] w. What w = [w1; w2; w3; w4] does to q is the same in all rows of a sample:
//
//   [q, h, q - h, q * h] w = q (w1 + w3) + [h, q * h] [w2 - w3; w4]
//
// so the second product is half as wide, and the first has a row a sample. On the CPU; T: float or
// bf16; q [B,W], h [R,W], offsets [B+1], of whose numbers the first is that of h's first row: so
// they may be those of some samples among others.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// folded [3W,n] = [w2 - w3; w4; w1 + w3] of w [4W,n].
template <typename T = float>
void fold_pair_weights(const Exec& exec, Matrix<const float> w, MatrixOf<T> folded);
// dw [4W,n] of the gradient of `folded`.
void unfold_pair_gradients(const Exec& exec, Matrix<const float> folded, Matrix<float> dw);

// pairs [R,2W] = [h, q * h].
template <typename T = float>
void make_pairs(const Exec& exec, MatrixOf<const T> q, MatrixOf<const T> h,
                Vector<const int64_t> offsets, MatrixOf<T> pairs);
// dh [R,W] = dpairs_h + q * dpairs_qh, and dq [B,W] += the sums of h * dpairs_qh over each sample's
// rows. One whose data() is null is not wanted.
template <typename T = float>
void make_pairs_backward(const Exec& exec, MatrixOf<const T> q, MatrixOf<const T> pairs,
                         MatrixOf<const T> dpairs, Vector<const int64_t> offsets, MatrixOf<T> dq,
                         MatrixOf<T> dh);
// y [R,n] += its sample's row of x [B,n].
template <typename T = float>
void add_sample_rows(const Exec& exec, MatrixOf<const T> x, Vector<const int64_t> offsets,
                     MatrixOf<T> y);

}  // namespace hlite::ops
