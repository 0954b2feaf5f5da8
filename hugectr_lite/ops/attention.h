// Attention of several heads: each row of q is a mean of the rows of v, weighted by how well it
// meets those of k. With d = h / heads, for each head's d columns of q [B,f,h] and k, v [B,t,h]:
//
//   s[i,j] = q[i] . k[j] / sqrt(d),  p[i,j] = exp(s[i,j]) / sum over seen j' of exp(s[i,j'])
//   y[i] = sum over seen j of p[i,j] v[j]
//   dv[j] = sum_i p[i,j] dy[i],  ds[i,j] = p[i,j] (dy[i] . v[j] - sum_j' p[i,j'] dy[i] . v[j'])
//   dq[i] = sum_j ds[i,j] k[j] / sqrt(d),  dk[j] = sum_i ds[i,j] q[i] / sqrt(d)
//
// Row i sees key j where mask[b,i,j] is not 0. One that sees none has y = 0 and moves nothing; keys
// after the last that a sample's rows see are not read. Scores live where they are used, and
// backward computes them again.
//
// T: float, or bf16, or on a GPU fp16. Sums are float's, in an order that the shape and the
// sample's mask alone decide. Results are overwritten and overlap no input.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {

// q [B,f,h], k and v [B,t,h], and mask [B,f,t], whose data() is null if each row sees all keys.
// Where they are packed, which is on the CPU, f and t are what a sample may have; y and the
// gradients then lie as q, k and v do, and no key is seen that is not there.
template <typename T>
struct AttentionInputs {
  View<const T, 3> q, k, v, mask;
  int64_t heads = 1;
  PackedRows q_rows = {}, k_rows = {}, v_rows = {};
};
template <typename T>
using AttentionInputsOf = AttentionInputs<std::type_identity_t<T>>;

// The widest heads of which a block of a GPU with 163 KiB of shared memory has room for some rows.
inline constexpr int64_t kWidestAttentionHead = 512;

// Numbers that forward leaves for backward of each row in each head: the largest score that it
// sees, and 1 over the sum of exponentials of what scores are less than it; 0 and 0 of none.
inline constexpr int64_t kAttentionStatistics = 2;

// y [B,f,h], statistics [B, heads * f, kAttentionStatistics].
template <typename T = float>
void attention_forward(const Exec& exec, const AttentionInputsOf<T>& in, View<float, 3> statistics,
                       ViewOf<T, 3> y);

// statistics, y: forward's; dy, dq [B,f,h]; dk, dv [B,t,h]. One whose data() is null is not wanted.
template <typename T = float>
void attention_backward(const Exec& exec, const AttentionInputsOf<T>& in,
                        View<const float, 3> statistics, ViewOf<const T, 3> y,
                        ViewOf<const T, 3> dy, ViewOf<T, 3> dq, ViewOf<T, 3> dk, ViewOf<T, 3> dv);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::attention_forward<T>)> attention_forward{"attention_forward"};
template <typename T>
inline const KernelOf<decltype(ops::attention_backward<T>)> attention_backward{
    "attention_backward"};
}  // namespace kernels

}  // namespace hlite::ops
