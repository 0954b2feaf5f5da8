// Kernels of the ReLU that no matrix product took along: 2 (forward) or 3 (backward) elements moved
// for each one computed.
#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/ops/map.cuh"
#include "hugectr_lite/ops/relu_kernels.cuh"

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

#define HLITE_INSTANTIATE(T)                                               \
  template void relu_forward<T>(cudaStream_t, Vector<const T>, Vector<T>); \
  template void relu_backward<T>(cudaStream_t, Vector<const T>, Vector<const T>, Vector<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops::gpu
