// Kernels of the ReLU that no matrix product took along: 2 (forward) or 3 (backward) elements moved
// for each one computed.
#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/map.cuh"

namespace hlite::ops::gpu {
namespace {

struct Forward {
  HLITE_HD float operator()(float x) const { return relu(x); }
};
struct Backward {
  HLITE_HD float operator()(float y, float dy) const { return relu_gradient(y, dy); }
};

}  // namespace

template <typename T>
void relu_forward(cudaStream_t stream, Vector<const T> x, Vector<T> y) {
  map("relu_forward", stream, x.size(), Forward(), y.data(), x.data());
}

template <typename T>
void relu_backward(cudaStream_t stream, Vector<const T> y, Vector<const T> dy, Vector<T> dx) {
  map("relu_backward", stream, y.size(), Backward(), dx.data(), y.data(), dy.data());
}

HLITE_KERNELS(relu) {
  for_each_float([&]<typename T>() {
    list.add<relu_forward<T>>(kernels::relu_forward<T>);
    list.add<relu_backward<T>>(kernels::relu_backward<T>);
  });
}

}  // namespace hlite::ops::gpu
