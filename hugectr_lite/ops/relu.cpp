#include "hugectr_lite/ops/relu.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth waking a thread for

void forward_on_cpu(const Exec& exec, Vector<const float> x, Vector<float> y) {
  cpu_threads(exec, "relu_forward").parallel_for(x.size(), kGrain, [&](int64_t begin, int64_t end) {
    const float* const from = x.data();
    float* const to = y.data();
    for (int64_t i = begin; i < end; ++i) to[i] = relu(from[i]);
  });
}

void backward_on_cpu(const Exec& exec, Vector<const float> y, Vector<const float> dy,
                     Vector<float> dx) {
  cpu_threads(exec, "relu_backward")
      .parallel_for(y.size(), kGrain, [&](int64_t begin, int64_t end) {
        const float* const out = y.data();
        const float* const from = dy.data();
        float* const to = dx.data();
        for (int64_t i = begin; i < end; ++i) to[i] = relu_gradient(out[i], from[i]);
      });
}

}  // namespace

template <typename T>
void relu_forward(const Exec& exec, Vector<const std::type_identity_t<T>> x,
                  Vector<std::type_identity_t<T>> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "x {}, y {}", x.shape(), y.shape());
  if (exec.on_gpu()) return kernels::relu_forward<T>(exec, x, y);
  if constexpr (std::is_same_v<T, float>)
    forward_on_cpu(exec, x, y);
  else
    needs_gpu("relu_forward");
}

template <typename T>
void relu_backward(const Exec& exec, Vector<const std::type_identity_t<T>> y,
                   Vector<const std::type_identity_t<T>> dy, Vector<std::type_identity_t<T>> dx) {
  HLITE_CHECK(y.dim(0) == dy.dim(0) && dx.dim(0) == dy.dim(0), "y {}, dy {}, dx {}", y.shape(),
              dy.shape(), dx.shape());
  if (exec.on_gpu()) return kernels::relu_backward<T>(exec, y, dy, dx);
  if constexpr (std::is_same_v<T, float>)
    backward_on_cpu(exec, y, dy, dx);
  else
    needs_gpu("relu_backward");
}

#define HLITE_INSTANTIATE(T)                                              \
  template void relu_forward<T>(const Exec&, Vector<const T>, Vector<T>); \
  template void relu_backward<T>(const Exec&, Vector<const T>, Vector<const T>, Vector<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
