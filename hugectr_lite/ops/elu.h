// y = x where x > 0, else alpha (e^x - 1), and its gradient dx = dy where y > 0,
// else dy (y + alpha).
#pragma once

#include <cmath>
#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// alpha >= 0, so that y has the sign of x. NaN stays NaN. expm1: small x keep their digits.
HLITE_HD inline float elu(float x, float alpha) { return x > 0 ? x : alpha * std::expm1(x); }
HLITE_HD inline float elu_gradient(float y, float dy, float alpha) {
  return y > 0 ? dy : dy * (y + alpha);
}

// T: float, or on a GPU bf16 or fp16 too, computed in float. x and y [N]; y may be the very view x.
template <typename T = float>
void elu_forward(const Exec& exec, Vector<const std::type_identity_t<T>> x, float alpha,
                 Vector<std::type_identity_t<T>> y);

// y (the forward output), dy and dx [N]; dx may be the very view y or dy. The rounding of y to T
// goes into dx: at most alpha |dy| times half a unit in the last place of 1.
template <typename T = float>
void elu_backward(const Exec& exec, Vector<const std::type_identity_t<T>> y,
                  Vector<const std::type_identity_t<T>> dy, float alpha,
                  Vector<std::type_identity_t<T>> dx);

namespace kernels {
template <typename T>
inline const Kernel<void(Vector<const T> /*x*/, float /*alpha*/, Vector<T> /*y*/)> elu_forward{
    "elu_forward"};
template <typename T>
inline const Kernel<void(Vector<const T> /*y*/, Vector<const T> /*dy*/, float /*alpha*/,
                         Vector<T> /*dx*/)>
    elu_backward{"elu_backward"};
}  // namespace kernels

}  // namespace hlite::ops
