// Conversions on device memory: launchers of the kernel in cast.cu, with the contract of cast.h.
#pragma once

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

template <typename T>
void cast_from_float(cudaStream_t stream, Vector<const float> x, Vector<T> out);
template <typename T>
void cast_to_float(cudaStream_t stream, Vector<const T> x, Vector<float> out);
// More columns in `out` than in `x`.
template <typename T>
void cast_padded(cudaStream_t stream, Matrix<const float> x, Matrix<T> out);

}  // namespace hlite::ops::gpu
