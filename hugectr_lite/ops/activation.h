// Activations: y = f(x) element by element, and the gradient dx = dy f'(x), where f'(x) is found
// from y.
//
// An activation is a small class F (relu.h, elu.h), trivially copyable:
//   const char* kForward, *kBackward          names of its kernels, and of the op in messages
//   int64_t kGrain                            elements worth waking a CPU thread for
//   HLITE_HD float value(float x) const
//   HLITE_HD float gradient(float y, float dy) const
//   void check() const                        throws Error where its parameters are out of range
// Its .cpp instantiates the op (activation_loops.h), its .cu the kernels (activation_kernels.cuh).
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// T: float, bf16, or on a GPU fp16, computed in float. x and y [N]; y may be the very view x.
template <typename T = float, typename F>
void activation_forward(const Exec& exec, const F& f, VectorOf<const T> x, VectorOf<T> y);

// y (the forward output), dy and dx [N]; dx may be the very view y or dy.
template <typename T = float, typename F>
void activation_backward(const Exec& exec, const F& f, VectorOf<const T> y, VectorOf<const T> dy,
                         VectorOf<T> dx);

namespace kernels {
template <typename T, typename F>
inline const KernelOf<decltype(ops::activation_forward<T, F>)> activation_forward{F::kForward};
template <typename T, typename F>
inline const KernelOf<decltype(ops::activation_backward<T, F>)> activation_backward{F::kBackward};
}  // namespace kernels

}  // namespace hlite::ops
