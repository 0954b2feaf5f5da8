// The end of a network in training on a GPU, in one pass over its largest matrix: the layer of one
// output below a loss, forward and backward, and the loss (fully_connected.h, mean_loss.h).
//
//   z = x w + b,  the mean loss of z and its gradient dz,  dx = dz w^T,  dw = x^T dz,  db = sum dz
//
// z, dz and dx have the bits of the single ops where no ReLU's mask differs from x > 0; the loss,
// dw and db are sums in another order, db in double. All depend on the shape alone.
#pragma once

#include "hugectr_lite/ops/mean_loss.h"

namespace hlite::ops {

// Returns true if a row of x may have so many bytes.
constexpr bool loss_head_takes(int64_t bytes) {
  return bytes > 0 && bytes % 16 == 0 && bytes <= 2048;  // at most 64 a lane of a warp
}

template <typename T>
struct LossHead {
  Matrix<const T> x;           // [B,in]
  Vector<const T> w;           // [in]
  const float* bias;           // or null
  bool relu;                   // x is a ReLU's output: dx is 0 where x is not positive
  Matrix<const float> labels;  // [B,1], or with weights of samples [B,2]
  // Written:
  Vector<float> logits;  // z, [B]
  float* loss;
  Vector<T> dlogits;  // dz, [B]
  Matrix<T> dx;       // [B,in]
  Vector<float> dw;   // [in]
  float* dbias;       // or null
};

// All is aligned to 16 bytes. `options` are those of one task; their workspace is not used.
template <typename T>
void loss_head(const Exec& exec, const LossHead<T>& head, const LossOptions& options);

namespace kernels {
// REQUIRES the Exec's MatmulContext.
template <typename T>
inline const KernelOf<decltype(ops::loss_head<T>)> loss_head{"loss_head"};
}  // namespace kernels

}  // namespace hlite::ops
