#include "hugectr_lite/ops/activation.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/lanes_exp.h"

namespace hlite::ops {

void Elu::check() const { HLITE_CHECK(alpha >= 0, "ELU: alpha {}", alpha); }

template <typename T, typename F>
void activation_forward(const Exec& exec, const F& f, VectorOf<const T> x, VectorOf<T> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0), "{}: x {}, y {}", F::kForward, x.shape(), y.shape());
  f.check();
  if (exec.on_gpu()) return kernels::activation_forward<T, F>(exec, f, x, y);
  wide_for<T>(exec, F::kForward, x.size(), F::kGrain, [=](int64_t begin, int64_t end) {
    const T* const from = x.data();
    T* const to = y.data();
#pragma GCC ivdep  // in place, maybe
    for (int64_t i = begin; i < end; ++i) to[i] = from_float<T>(f.value(to_float(from[i])));
  });
}

template <typename T, typename F>
void activation_backward(const Exec& exec, const F& f, VectorOf<const T> y, VectorOf<const T> dy,
                         VectorOf<T> dx) {
  HLITE_CHECK(y.dim(0) == dy.dim(0) && dx.dim(0) == dy.dim(0), "{}: y {}, dy {}, dx {}",
              F::kBackward, y.shape(), dy.shape(), dx.shape());
  f.check();
  if (exec.on_gpu()) return kernels::activation_backward<T, F>(exec, f, y, dy, dx);
  wide_for<T>(exec, F::kBackward, y.size(), F::kGrain, [=](int64_t begin, int64_t end) {
    const T* const out = y.data();
    const T* const from = dy.data();
    T* const to = dx.data();
#pragma GCC ivdep  // in place, maybe
    for (int64_t i = begin; i < end; ++i)
      to[i] = from_float<T>(f.gradient(to_float(out[i]), to_float(from[i])));
  });
}

template <typename T>
void sigmoid_by_vectors(const Exec& exec, VectorOf<const T> x, VectorOf<T> y) {
  constexpr const char* kName = "sigmoid_by_vectors";
  HLITE_CHECK(x.dim(0) == y.dim(0), "{}: x {}, y {}", kName, x.shape(), y.shape());
  cpu_threads_for<T>(exec, kName)
      .parallel_for(x.size(), Sigmoid::kGrain, [=](int64_t begin, int64_t end) {
        if constexpr (kOnCpu<T>)
          wide([&]<int kLanes>() {
            constexpr float kMost = 88;  // beyond, e^-x is infinite, and y next to 0
            const auto value = [](Lanes<kLanes> of) {
              const Lanes<kLanes> turned = -of;
              return 1 / (1 + exp_of(turned > kMost ? Lanes<kLanes>{} + kMost : turned));
            };
            for (int64_t at = begin; at < end; at += kLanes) {
              const int64_t n = std::min<int64_t>(kLanes, end - at);
              if constexpr (std::is_same_v<T, float>)
                if (n == kLanes) {
                  store(y.data() + at, value(load<kLanes>(x.data() + at)));
                  continue;
                }
              float some[kLanes] = {};
              for (int64_t i = 0; i < n; ++i) some[i] = to_float(x.data()[at + i]);
              store(some, value(load<kLanes>(some)));
              for (int64_t i = 0; i < n; ++i) y.data()[at + i] = from_float<T>(some[i]);
            }
          });
      });
}
HLITE_INSTANTIATE_FLOATS(sigmoid_by_vectors)

#define HLITE_ACTIVATION_OF(F, T)                                       \
  template decltype(activation_forward<T, F>) activation_forward<T, F>; \
  template decltype(activation_backward<T, F>) activation_backward<T, F>;
#define HLITE_ACTIVATIONS(T)      \
  HLITE_ACTIVATION_OF(Relu, T)    \
  HLITE_ACTIVATION_OF(Elu, T)     \
  HLITE_ACTIVATION_OF(Sigmoid, T) \
  HLITE_ACTIVATION_OF(Tanh, T)    \
  HLITE_ACTIVATION_OF(Silu, T)    \
  HLITE_ACTIVATION_OF(Gelu, T)
HLITE_FOR_EACH_FLOAT(HLITE_ACTIVATIONS)
#undef HLITE_ACTIVATIONS
#undef HLITE_ACTIVATION_OF

}  // namespace hlite::ops
