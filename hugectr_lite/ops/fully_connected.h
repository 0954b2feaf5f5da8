// The fully connected layer y = act(x w + b) and its gradients, with bias, ReLU, ReLU mask and bias
// gradient done by the worker that just multiplied the rows, while they are still in its cache.
//
//   forward            z = x w + 1 b^T,  y = max(z, 0) or z
//   backward, data     dx = dz w^T            [masked by the layer below: dx *= (x > 0)]
//   backward, weights  dw = x^T dz
//   backward, bias     db = column sums of dz
//
// A chain of layers runs backward as: bias_relu_backward for the last one, then for each layer
// backward_weights and backward_data, the latter turning dx into the dz of the layer below and
// summing its bias gradient on the way (cuBLASLt calls that epilogue DRELU_BGRAD).
//
// Sums over the batch run over fixed blocks of rows combined in row order: their bits depend on
// shapes and thread count only.
#pragma once

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// x [B,in], w [in,out], bias [out] or null data for none, y [B,out] overwritten. relu: negative and
// zero results become 0; NaN stays NaN. y overlaps no input.
void fully_connected_forward(const Exec& exec, Matrix<const float> x, Matrix<const float> w,
                             Vector<const float> bias, bool relu, Matrix<float> y);

// The layer below, whose output is this layer's input x.
struct ReluBelow {
  Matrix<const float> y;  // [B,in], its output; null data: it has no ReLU, so nothing is masked
  Vector<float> dbias;    // [in], overwritten; null data: it has no bias
};

// dx [B,in] = dz [B,out] w^T, overwritten. With `below`: dx is zeroed where below->y <= 0, and
// below->dbias = column sums of the result. dx overlaps no input.
void fully_connected_backward_data(const Exec& exec, Matrix<const float> dz, Matrix<const float> w,
                                   Matrix<float> dx, const ReluBelow* below = nullptr);

// dw [in,out] = x^T dz, overwritten; x [B,in], dz [B,out]. B = 0 gives zeros.
void fully_connected_backward_weights(const Exec& exec, Matrix<const float> x,
                                      Matrix<const float> dz, Matrix<float> dw);

// In place dy [B,out] -> dz: zeroed where y <= 0 (y with null data: no ReLU, dy stays). dbias [out]
// = column sums of dz, overwritten (null data: none).
void bias_relu_backward(const Exec& exec, Matrix<const float> y, Matrix<float> dy,
                        Vector<float> dbias);

}  // namespace hlite::ops
