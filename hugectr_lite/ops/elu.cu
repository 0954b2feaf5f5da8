// Kernels of the ELU: 2 (forward) or 3 (backward) elements moved for each one computed.
#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/map.cuh"

namespace hlite::ops::gpu {
namespace {

struct EluForward {
  float alpha;
  HLITE_HD float operator()(float x) const { return elu(x, alpha); }
};
struct EluBackward {
  float alpha;
  HLITE_HD float operator()(float y, float dy) const { return elu_gradient(y, dy, alpha); }
};

}  // namespace

template <typename T>
void elu_forward(cudaStream_t stream, Vector<const T> x, float alpha, Vector<T> y) {
  map("elu_forward", stream, x.size(), EluForward{alpha}, y.data(), x.data());
}

template <typename T>
void elu_backward(cudaStream_t stream, Vector<const T> y, Vector<const T> dy, float alpha,
                  Vector<T> dx) {
  map("elu_backward", stream, y.size(), EluBackward{alpha}, dx.data(), y.data(), dy.data());
}

HLITE_KERNELS(elu) {
  for_each_float([&]<typename T>() {
    list.add<elu_forward<T>>(kernels::elu_forward<T>);
    list.add<elu_backward<T>>(kernels::elu_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
