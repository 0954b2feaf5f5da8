// Binary cross-entropy on device memory: the launcher of the kernels in bce_loss.cu, with the
// contract of bce_loss.h.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/ops/bce_loss.h"

namespace hlite::ops::gpu {

template <typename T>
void bce_loss(cudaStream_t stream, Matrix<const float> logits, Matrix<const float> labels,
              float* loss, Matrix<T> dlogits, const BceOptions& options);

}  // namespace hlite::ops::gpu
