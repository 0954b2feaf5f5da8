// Activations: y = f(x) element by element, and the gradient dx = dy f'(x), where f'(x) is found
// from y, or for an f without an inverse from x.
//
// An activation is a small class F, trivially copyable:
//   const char* kForward, *kBackward          names of its kernels, and of the op in messages
//   int64_t kGrain                            elements worth waking a CPU thread for
//   HLITE_HD float value(float x) const
//   HLITE_HD float gradient(float y, float dy) const
//   bool kFromInput                           gradient() takes x in place of y
//   void check() const                        throws Error where its parameters are out of range
#pragma once

#include <cmath>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/host_device.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// y = max(x, 0), dx = dy where y > 0, else 0. NaN stays NaN, so that a broken run shows in the
// loss. -0 becomes 0.
HLITE_HD inline float relu(float x) { return x <= 0 ? 0.0f : x; }
HLITE_HD inline float relu_gradient(float y, float dy) { return y > 0 ? dy : 0.0f; }

struct Relu {
  static constexpr const char *kForward = "relu_forward", *kBackward = "relu_backward";
  static constexpr int64_t kGrain = 1 << 14;
  static constexpr bool kFromInput = false;
  [[nodiscard]] HLITE_HD float value(float x) const { return relu(x); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return relu_gradient(y, dy); }
  void check() const {}
};

// y = x where x > 0, else alpha (e^x - 1), dx = dy where y > 0, else dy (y + alpha).
struct Elu {
  static constexpr const char *kForward = "elu_forward", *kBackward = "elu_backward";
  static constexpr int64_t kGrain = 1 << 12;
  static constexpr bool kFromInput = false;
  float alpha = 1;  // >= 0, so that y has the sign of x

  // NaN stays NaN. expm1: small x keep their digits.
  [[nodiscard]] HLITE_HD float value(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  // The rounding of y to T goes into dx: at most alpha |dy| times half a unit in the last place
  // of 1.
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const {
    return y > 0 ? dy : dy * (y + alpha);
  }
  void check() const;
};

// y = 1 / (1 + e^-x), dx = dy y (1 - y).
struct Sigmoid {
  static constexpr const char *kForward = "sigmoid_forward", *kBackward = "sigmoid_backward";
  static constexpr int64_t kGrain = 1 << 12;
  static constexpr bool kFromInput = false;
  // e^-x may be infinite: y is then 0. NaN stays NaN.
  [[nodiscard]] HLITE_HD float value(float x) const { return 1 / (1 + std::exp(-x)); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return dy * y * (1 - y); }
  void check() const {}
};

// y = tanh(x), dx = dy (1 - y^2).
struct Tanh {
  static constexpr const char *kForward = "tanh_forward", *kBackward = "tanh_backward";
  static constexpr int64_t kGrain = 1 << 12;
  static constexpr bool kFromInput = false;
  [[nodiscard]] HLITE_HD float value(float x) const { return std::tanh(x); }
  [[nodiscard]] HLITE_HD float gradient(float y, float dy) const { return dy * (1 - y) * (1 + y); }
  void check() const {}
};

// y = x s(x), dx = dy s(x) (1 + x (1 - s(x))), with the sigmoid s.
struct Silu {
  static constexpr const char *kForward = "silu_forward", *kBackward = "silu_backward";
  static constexpr int64_t kGrain = 1 << 12;
  static constexpr bool kFromInput = true;
  // -infinity gives NaN, as with PyTorch.
  [[nodiscard]] HLITE_HD float value(float x) const { return x * Sigmoid().value(x); }
  [[nodiscard]] HLITE_HD float gradient(float x, float dy) const {
    const float s = Sigmoid().value(x);
    return dy * (s * (1 + x * (1 - s)));
  }
  void check() const {}
};

// y = x Phi(x), dx = dy (Phi(x) + x phi(x)), with the normal distribution Phi and its density phi
// (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016); exact, as PyTorch's default.
struct Gelu {
  static constexpr const char *kForward = "gelu_forward", *kBackward = "gelu_backward";
  static constexpr int64_t kGrain = 1 << 11;
  static constexpr bool kFromInput = true;
  // erfc keeps the digits of the tail, which 1 + erf would lose. -infinity gives NaN, as there.
  [[nodiscard]] static HLITE_HD float normal(float x) { return 0.5f * std::erfc(x * -kRootHalf); }
  [[nodiscard]] HLITE_HD float value(float x) const { return x * normal(x); }
  [[nodiscard]] HLITE_HD float gradient(float x, float dy) const {
    return dy * (normal(x) + x * (kDensityAt0 * std::exp(-0.5f * x * x)));
  }
  void check() const {}

 private:
  static constexpr float kRootHalf = 0.70710678f, kDensityAt0 = 0.39894228f;
};

// T: float, bf16, or on a GPU fp16, computed in float. x and y [N]; y may be the very view x.
template <typename T = float, typename F>
void activation_forward(const Exec& exec, const F& f, VectorOf<const T> x, VectorOf<T> y);

// y (the forward output, or the input where F::kFromInput), dy and dx [N]; dx may be the very view
// y or dy.
template <typename T = float, typename F>
void activation_backward(const Exec& exec, const F& f, VectorOf<const T> y, VectorOf<const T> dy,
                         VectorOf<T> dx);

// Sigmoid's y by vectors, within 4 units in the last place of it: on the CPU, where no bits of
// before have to stay. An element has the same bits wherever it lies. T: float or bf16.
template <typename T = float>
void sigmoid_by_vectors(const Exec& exec, VectorOf<const T> x, VectorOf<T> y);

namespace kernels {
template <typename T, typename F>
inline const KernelOf<decltype(ops::activation_forward<T, F>)> activation_forward{F::kForward};
template <typename T, typename F>
inline const KernelOf<decltype(ops::activation_backward<T, F>)> activation_backward{F::kBackward};
}  // namespace kernels

}  // namespace hlite::ops
