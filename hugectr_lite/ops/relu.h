// y = max(x, 0) and its gradient dx = dy where y > 0, else 0.
#pragma once

#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// NaN stays NaN, so that a broken run shows in the loss. -0 becomes 0.
HLITE_HD inline float relu(float x) { return x <= 0 ? 0.0f : x; }
HLITE_HD inline float relu_gradient(float y, float dy) { return y > 0 ? dy : 0.0f; }

// T: float, or on a GPU bf16 or fp16 too. x and y [N]; y may be the very view x.
template <typename T = float>
void relu_forward(const Exec& exec, Vector<const std::type_identity_t<T>> x,
                  Vector<std::type_identity_t<T>> y);

// y (the forward output), dy and dx [N]; dx may be the very view y or dy.
template <typename T = float>
void relu_backward(const Exec& exec, Vector<const std::type_identity_t<T>> y,
                   Vector<const std::type_identity_t<T>> dy, Vector<std::type_identity_t<T>> dx);

namespace kernels {
template <typename T>
inline const Kernel<void(Vector<const T> /*x*/, Vector<T> /*y*/)> relu_forward{"relu_forward"};
template <typename T>
inline const Kernel<void(Vector<const T> /*y*/, Vector<const T> /*dy*/, Vector<T> /*dx*/)>
    relu_backward{"relu_backward"};
}  // namespace kernels

}  // namespace hlite::ops
