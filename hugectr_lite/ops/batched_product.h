// Products and transposes of a matrix each of every sample.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/gemm.h"

namespace hlite::ops {

// c[s] [m,n] = op(a[s]) op(b[s]) for every sample s, op as in gemm.h, not both transposed. T:
// float, or bf16, or on a GPU fp16; sums are float, in an order that m, n and k alone decide. c
// overlaps neither a nor b.
template <typename T = float>
void batched_product(const Exec& exec, Transpose ta, Transpose tb, ViewOf<const T, 3> a,
                     ViewOf<const T, 3> b, ViewOf<T, 3> c);

// y[s] = the transpose of x[s]. They do not overlap.
template <typename T = float>
void batched_transpose(const Exec& exec, ViewOf<const T, 3> x, ViewOf<T, 3> y);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::batched_product<T>)> batched_product{"batched_product"};
template <typename T>
inline const KernelOf<decltype(ops::batched_transpose<T>)> batched_transpose{"batched_transpose"};
}  // namespace kernels

}  // namespace hlite::ops
