// Kernels of the activations: 2 (forward) or 3 (backward) elements moved for each one computed.
#include "hugectr_lite/ops/activation.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/map.cuh"

namespace hlite::ops::gpu {

template <typename F>
struct ActivationValue {
  F f;
  HLITE_HD float operator()(float x) const { return f.value(x); }
};
template <typename F>
struct ActivationGradient {
  F f;
  HLITE_HD float operator()(float y, float dy) const { return f.gradient(y, dy); }
};

template <typename T, typename F>
void activation_forward(cudaStream_t stream, const F& f, Vector<const T> x, Vector<T> y) {
  map(F::kForward, stream, x.size(), ActivationValue<F>{f}, y.data(), x.data());
}

template <typename T, typename F>
void activation_backward(cudaStream_t stream, const F& f, Vector<const T> y, Vector<const T> dy,
                         Vector<T> dx) {
  map(F::kBackward, stream, y.size(), ActivationGradient<F>{f}, dx.data(), y.data(), dy.data());
}

template <typename F>
void add_activation(KernelList& list) {
  for_each_float([&]<typename T>() {
    list.add<activation_forward<T, F>>(kernels::activation_forward<T, F>);
    list.add<activation_backward<T, F>>(kernels::activation_backward<T, F>);
  });
}

HLITE_KERNELS(activation) {
  add_activation<Relu>(list);
  add_activation<Elu>(list);
  add_activation<Sigmoid>(list);
  add_activation<Tanh>(list);
  add_activation<Silu>(list);
  add_activation<Gelu>(list);
}

}  // namespace hlite::ops::gpu
