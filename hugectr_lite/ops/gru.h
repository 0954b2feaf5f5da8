// The recurrence of gated recurrent units (Cho et al., 2014, with the reset gate after the product,
// as cuDNN and PyTorch have it), over the valid positions of each sample's history:
//
//   r = sigmoid(p_r + h R_r),  z = sigmoid(p_z + h R_z),  c = tanh(p_c + r (h R_c)),
//   h' = h + a (1 - z) (c - h),                          h before the first position 0
//
// where p = x W + b is ready for all positions, and a is 1, or an attention score: DIEN's AUGRU
// (Zhou et al., "Deep Interest Evolution Network", 2019). Backward, with g = dL/dh',
//
//   dc = g a (1 - z) (1 - c^2),  dz = g a (h - c) z (1 - z),  dr = dc (h R_c) r (1 - r),
//   dL/dh = g (1 - a (1 - z)) + [dr, dz, dc r] R^T,  dp = [dr, dz, dc],  da = sum g (1 - z) (c - h)
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// The widest states whose numbers a block of a GPU can share.
constexpr int64_t kWidestGru = 1024;

// B samples of T positions, n wide. T: float, or bf16, or on a GPU fp16; computed in float.
template <typename T>
struct GruTensors {
  Vector<const float> lengths;    // [B]: valid positions, from the front
  Matrix<const T> attention;      // [B,T]: a; null data: 1
  Matrix<const float> recurrent;  // [n,3n]: R
  // [B,T,3n]: p, in the order r, z, c; forward makes it the gates, backward dp, which is 0 at
  // padding.
  View<T, 3> gates;
  // [B,T,3n]: forward keeps h R_c in the last n, which backward needs; that makes it [dr, dz, dc r],
  // and 0 at padding and where h is 0, at position 0: dR is the product with the states one row
  // earlier. Null data in forward: there is no way back.
  View<T, 3> products;
  View<T, 3> states;  // [B,T,n]: h'; forward makes those of padding 0

  [[nodiscard]] HLITE_HD int64_t length(int64_t sample) const {
    const float found = lengths.data()[sample];
    const auto most = static_cast<float>(states.dim(1));
    return !(found > 0) ? 0 : static_cast<int64_t>(found < most ? found : most);
  }
  [[nodiscard]] HLITE_HD int64_t row(int64_t sample, int64_t t) const {
    return sample * states.dim(1) + t;
  }
  [[nodiscard]] HLITE_HD float score(int64_t row) const {
    return attention.data() ? to_float(attention.data()[row]) : 1.0f;
  }
};

// gates -> gates, products and states. The bits of a sample do not depend on the others.
template <typename T = float>
void gru_forward(const Exec& exec, const GruTensors<std::type_identity_t<T>>& gru);

// dstates [B,T,n], of which those at padding are not read. turned [3n,n]: workspace. dattention
// [B,T], 0 at padding; null data: not wanted.
template <typename T = float>
void gru_backward(const Exec& exec, const GruTensors<std::type_identity_t<T>>& gru,
                  ViewOf<const T, 3> dstates, Matrix<float> turned, MatrixOf<T> dattention);

// One number of a state, for the CPU and GPUs.
struct GruGradient {
  float dr, dz, dc, product, dh, da;
};
HLITE_HD inline GruGradient gru_gradient(float g, float a, float r, float z, float c, float product,
                                         float h) {
  const float open = g * a, left = 1 - z;
  const float dc = open * left * (1 - c * c);
  return {dc * product * r * (1 - r), open * (h - c) * z * left, dc, dc * r,
          g * (1 - a * left),         g * left * (c - h)};
}

namespace kernels {
template <typename T>
inline const KernelOf<decltype(ops::gru_forward<T>)> gru_forward{"gru_forward"};
template <typename T>
inline const KernelOf<decltype(ops::gru_backward<T>)> gru_backward{"gru_backward"};
}  // namespace kernels

}  // namespace hlite::ops
