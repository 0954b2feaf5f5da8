// Fully connected layers on device memory: launchers of fully_connected.cu. Formulas, shapes and
// aliasing are those of fully_connected.h; all work runs on `stream`, which `matmul` belongs to.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/matmul.cuh"

namespace hlite::ops::gpu {

// T: float, bf16 or fp16; Y: T or float.
template <typename T, typename Y>
void fully_connected_forward(Matmul& matmul, cudaStream_t stream, Matrix<const T> x,
                             Matrix<const T> w, Vector<const Y> bias, bool relu, Matrix<Y> y,
                             Matrix<uint8_t> mask);

// Of the layer below: masked where it has a mask, else where it has y; summed where it has dbias.
template <typename T>
void fully_connected_backward_data(Matmul& matmul, cudaStream_t stream, Matrix<const T> dz,
                                   Matrix<const T> w, Matrix<T> dx, Matrix<const T> y_below,
                                   Matrix<const uint8_t> mask_below, Vector<float> dbias_below);

template <typename T>
void fully_connected_backward_weights(Matmul& matmul, cudaStream_t stream, Matrix<const T> x,
                                      Matrix<const T> dz, Matrix<float> dw);

template <typename T>
void bias_relu_backward(Matmul& matmul, cudaStream_t stream, Matrix<const T> y, Matrix<T> dy,
                        Vector<float> dbias, Matrix<const uint8_t> mask);

}  // namespace hlite::ops::gpu
