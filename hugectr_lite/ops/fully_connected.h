// The fully connected layer y = act(x w + b) and its gradients, with bias, ReLU, ReLU mask and bias
// gradient done by the worker that just multiplied the rows, while they are still in its cache.
//
//   forward            z = x w + 1 b^T,  y = max(z, 0) or z
//   backward, data     dx = dz w^T            [masked by the layer below: dx *= (x > 0)]
//   backward, weights  dw = x^T dz
//   backward, bias     db = column sums of dz
//
// A chain of layers runs backward as: bias_relu_backward for the last one, then for each layer
// backward_weights and backward_data, the latter turning dx into the dz of the layer below. On the
// CPU it also sums that layer's bias gradient on the way. On a GPU that is the work of
// backward_weights, which reads dz anyway: cuBLASLt then masks element by element (DRELU), and sums
// a factor while it multiplies (BGRADA), where DRELU_BGRAD is as slow as a pass of its own.
//
// Sums over the batch run over fixed blocks of rows combined in row order: their bits depend on
// shapes and, on the CPU, thread count only.
//
// T: float, bf16, or on a GPU fp16 for x, y, dz, dx, w and bias; sums are float, gradients of
// weights and biases too. On a GPU all of it runs on the stream of exec.matmul, and
// - a ReLU can write down which outputs it let pass, so that backward reads bits, not numbers;
// - a NaN may become 0 in cuBLASLt's ReLU, and a gradient may pass where a result is exactly 0;
// - bias gradients of 16-bit T that backward_data sums may be rounded to T once, at the end;
// - in and out are best multiples of 8 (16-bit T) or 4 (float): rows are then aligned to 16 bytes,
//   as the tensor cores' loads want them. Other widths work, at a fraction of the speed: pad a 13
//   wide input to 16 with zeros. out = 1 has kernels of its own, at the speed of memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::ops {

// Bytes of one sample in a ReLU mask: a bit for each of `out` outputs, the first in the lowest bit
// of the first byte, set where the output is positive; padded to multiples of 128 bits.
constexpr int64_t relu_mask_bytes(int64_t out) { return (out + 127) / 128 * 16; }

// x [B,in], w [in,out], bias [out] or null data for none, y [B,out] overwritten. relu: negative and
// zero results become 0; NaN stays NaN. y overlaps no input. Y: T, or float for logits. mask: [B,
// relu_mask_bytes(out)], written when `relu` is set, aligned to 16 bytes; null data on the CPU or
// if it is not read.
template <typename T = float, typename Y = T>
void fully_connected_forward(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                             VectorOf<const Y> bias, bool relu, MatrixOf<Y> y,
                             Matrix<uint8_t> mask = {});

// The same in evaluation. On the CPU the bits of a sample's outputs depend on its own inputs and
// the weights only, not on the batch it is in, its place there or the threads: a score is the same
// however samples were put together. On a GPU it is fully_connected_forward().
template <typename T = float, typename Y = T>
void fully_connected_evaluate(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> w,
                              VectorOf<const Y> bias, bool relu, MatrixOf<Y> y);

// The layer below, whose output is this layer's input x.
template <typename T>
struct LayerBelow {
  Matrix<const T> y;    // [B,in], its output; null data: it has no ReLU, so nothing is masked
  Vector<float> dbias;  // [in], overwritten; null data: it has no bias
  Matrix<const uint8_t> mask = {};  // with y: what its forward wrote, read instead of y; or null
};

// dx [B,in] = dz [B,out] w^T, overwritten. With `below`: dx is zeroed where below.y <= 0, and
// below.dbias = column sums of the result. dx overlaps no input.
template <typename T = float>
void fully_connected_backward_data(const Exec& exec, MatrixOf<const T> dz, MatrixOf<const T> w,
                                   MatrixOf<T> dx,
                                   const LayerBelow<std::type_identity_t<T>>& below = {});

// dx [B,in] += dz [B,out] w^T, in float. In 16 bits the product may be rounded to T before it is
// added: in bf16 on the CPU, and by cuBLASLt on Hopper. dx overlaps no input.
template <typename T = float>
void fully_connected_add_backward_data(const Exec& exec, MatrixOf<const T> dz, MatrixOf<const T> w,
                                       MatrixOf<T> dx);

// dw [in,out] = x^T dz, overwritten; x [B,in], dz [B,out]. B = 0 gives zeros. dbias [out] = column
// sums of dz, overwritten (null data: none).
template <typename T = float>
void fully_connected_backward_weights(const Exec& exec, MatrixOf<const T> x, MatrixOf<const T> dz,
                                      Matrix<float> dw, Vector<float> dbias = {});

// Turns dy [B,out] into dz in place: zeroed where y <= 0 (y with null data: no ReLU, dy stays).
// dbias [out] = column sums of dz, overwritten (null data: none). mask as in LayerBelow.
template <typename T = float>
void bias_relu_backward(const Exec& exec, MatrixOf<const T> y, MatrixOf<T> dy, Vector<float> dbias,
                        Matrix<const uint8_t> mask = {});

namespace kernels {
// REQUIRES the Exec's MatmulContext.
template <typename T, typename Y = T>
inline const KernelOf<decltype(ops::fully_connected_forward<T, Y>)> fully_connected_forward{
    "fully_connected_forward"};
template <typename T>
inline const KernelOf<decltype(ops::fully_connected_backward_data<T>)>
    fully_connected_backward_data{"fully_connected_backward_data"};
template <typename T>
inline const KernelOf<decltype(ops::fully_connected_add_backward_data<T>)>
    fully_connected_add_backward_data{"fully_connected_add_backward_data"};
template <typename T>
inline const KernelOf<decltype(ops::fully_connected_backward_weights<T>)>
    fully_connected_backward_weights{"fully_connected_backward_weights"};
template <typename T>
inline const KernelOf<decltype(ops::bias_relu_backward<T>)> bias_relu_backward{
    "bias_relu_backward"};
}  // namespace kernels

}  // namespace hlite::ops
