// Cross layers' passes over [B,n]: their work other than products, which are those of
// fully_connected.h.
//
//   low rank (Wang et al., DCN V2, 2021)   x' = x0 * h + x,      h = (x u) v + 1 b^T, or with a
//                                          matrix of full rank  h = x w + 1 b^T
//   vector (Wang et al., DCN, 2017)        x' = a x0 + 1 b^T + x, a = x w, a number a sample
//
// with * element by element. Backward, g is the gradient of x', and dx0 gathers that of x0 over all
// layers, from the last to the first; s and p go on into products:
//
//   low rank   dx0 += g * h,  s = g * x0,          db = column sums of s
//   vector     dx0 += a g,    p = sum_j g_j x0_j
//
// x0, x, x', h, g, dx0, s [B,n], a, p [B,1], b, db [n]. T: float, or on a GPU bf16 or fp16 too;
// computed in float. Results overlap nothing but what is said.
#pragma once

#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// y = x0 * h + x, overwritten.
template <typename T = float>
void cross_forward(const Exec& exec, MatrixOf<const T> x0, MatrixOf<const T> h, MatrixOf<const T> x,
                   MatrixOf<T> y);

// y = a x0 + 1 b^T + x, overwritten.
template <typename T = float>
void vector_cross_forward(const Exec& exec, MatrixOf<const T> x0, MatrixOf<const T> a,
                          VectorOf<const T> b, MatrixOf<const T> x, MatrixOf<T> y);

// The gradient of x0, or null data if it is not needed.
template <typename T>
struct CrossInput {
  Matrix<T> dx0;
  bool first = false;  // the first layer to write it: overwritten
  bool last = false;   // where x is x0: g is added too
};

// h -> s in place. db is overwritten. On a GPU with exec.matmul.
template <typename T = float>
void cross_backward(const Exec& exec, MatrixOf<const T> g, MatrixOf<const T> x0, MatrixOf<T> h,
                    const CrossInput<std::type_identity_t<T>>& input, Vector<float> db);

// p is overwritten.
template <typename T = float>
void vector_cross_backward(const Exec& exec, MatrixOf<const T> g, MatrixOf<const T> x0,
                           MatrixOf<const T> a, const CrossInput<std::type_identity_t<T>>& input,
                           MatrixOf<T> p);

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::cross_forward<T>)> cross_forward{"cross_forward"};
template <typename T>
inline const KernelOf<decltype(ops::vector_cross_forward<T>)> vector_cross_forward{
    "vector_cross_forward"};
// REQUIRES the Exec's MatmulContext.
template <typename T>
inline const KernelOf<decltype(ops::cross_backward<T>)> cross_backward{"cross_backward"};
template <typename T>
inline const KernelOf<decltype(ops::vector_cross_backward<T>)> vector_cross_backward{
    "vector_cross_backward"};
}  // namespace kernels

}  // namespace hlite::ops
