// The lookup on device memory: launcher of the kernels in lookup.cu. Formula and shapes are those
// of lookup.h.
#pragma once

#include "embedding/slots_ref.h"
#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding::gpu {

// T: float, bf16 or fp16. Throws CudaError for batches of 2^32 keys or output rows and more.
template <typename T>
void lookup_forward(cudaStream_t stream, const SlotsRef& slots, Matrix<const float> table,
                    Matrix<const uint32_t> keys, View<T, 3> out, const KeyCheck& check);

}  // namespace hlite::embedding::gpu
