// FmOrder2: the second-order term of a factorization machine, vector by vector: the sum of the
// products of all pairs of a sample's vectors (Rendle, Factorization Machines, 2010).
//
//   y[b,v] = 1/2 ((sum_s z_s[v])^2 - sum_s z_s[v]^2) = sum_(s<t) z_s[v] z_t[v],  z_s = x[b,s,:]
//   dx[b,s,v] = dy[b,v] (sum_t z_t[v] - z_s[v])
//
// x, dx [B,S,V]; y, dy [B,V]. Computed as the second form, which cancels nothing. T: float, or on a
// GPU bf16 or fp16 too; sums are float. Results are overwritten and overlap no input.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

template <typename T = float>
void fm_order2_forward(const Exec& exec, ViewOf<const T, 3> x, MatrixOf<T> y);

template <typename T = float>
void fm_order2_backward(const Exec& exec, ViewOf<const T, 3> x, MatrixOf<const T> dy,
                        ViewOf<T, 3> dx);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::fm_order2_forward<T>)> fm_order2_forward{"fm_order2_forward"};
template <typename T>
inline const KernelOf<decltype(ops::fm_order2_backward<T>)> fm_order2_backward{
    "fm_order2_backward"};
}  // namespace kernels

}  // namespace hlite::ops
