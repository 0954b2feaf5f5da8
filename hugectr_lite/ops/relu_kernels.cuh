// ReLU on device memory: launchers of the kernels in relu.cu, with the contract of relu.h.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

template <typename T>
void relu_forward(cudaStream_t stream, Vector<const T> x, Vector<T> y);
template <typename T>
void relu_backward(cudaStream_t stream, Vector<const T> y, Vector<const T> dy, Vector<T> dx);

}  // namespace hlite::ops::gpu
