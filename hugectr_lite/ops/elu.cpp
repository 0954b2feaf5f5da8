#include "hugectr_lite/ops/elu.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

constexpr int64_t kEluGrain = 1 << 12;  // elements worth waking a thread for

void elu_on_cpu(const Exec& exec, Vector<const float> x, float alpha, Vector<float> y) {
  cpu_threads(exec, "elu_forward")
      .parallel_for(x.size(), kEluGrain, [&](int64_t begin, int64_t end) {
        const float* const from = x.data();
        float* const to = y.data();
        for (int64_t i = begin; i < end; ++i) to[i] = elu(from[i], alpha);
      });
}

void elu_gradient_on_cpu(const Exec& exec, Vector<const float> y, Vector<const float> dy,
                         float alpha, Vector<float> dx) {
  cpu_threads(exec, "elu_backward")
      .parallel_for(y.size(), kEluGrain, [&](int64_t begin, int64_t end) {
        const float* const out = y.data();
        const float* const from = dy.data();
        float* const to = dx.data();
        for (int64_t i = begin; i < end; ++i) to[i] = elu_gradient(out[i], from[i], alpha);
      });
}

}  // namespace

template <typename T>
void elu_forward(const Exec& exec, Vector<const std::type_identity_t<T>> x, float alpha,
                 Vector<std::type_identity_t<T>> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "x {}, y {}", x.shape(), y.shape());
  HLITE_CHECK(alpha >= 0, "alpha {}", alpha);
  if (exec.on_gpu()) return kernels::elu_forward<T>(exec, x, alpha, y);
  if constexpr (std::is_same_v<T, float>)
    elu_on_cpu(exec, x, alpha, y);
  else
    needs_gpu("elu_forward");
}

template <typename T>
void elu_backward(const Exec& exec, Vector<const std::type_identity_t<T>> y,
                  Vector<const std::type_identity_t<T>> dy, float alpha,
                  Vector<std::type_identity_t<T>> dx) {
  HLITE_CHECK(y.dim(0) == dy.dim(0) && dx.dim(0) == dy.dim(0), "y {}, dy {}, dx {}", y.shape(),
              dy.shape(), dx.shape());
  HLITE_CHECK(alpha >= 0, "alpha {}", alpha);
  if (exec.on_gpu()) return kernels::elu_backward<T>(exec, y, dy, alpha, dx);
  if constexpr (std::is_same_v<T, float>)
    elu_gradient_on_cpu(exec, y, dy, alpha, dx);
  else
    needs_gpu("elu_backward");
}

#define HLITE_INSTANTIATE(T)                                                    \
  template void elu_forward<T>(const Exec&, Vector<const T>, float, Vector<T>); \
  template void elu_backward<T>(const Exec&, Vector<const T>, Vector<const T>, float, Vector<T>);
HLITE_FOR_EACH_FLOAT(HLITE_INSTANTIATE)
#undef HLITE_INSTANTIATE

}  // namespace hlite::ops
