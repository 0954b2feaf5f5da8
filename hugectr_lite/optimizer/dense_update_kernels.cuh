// The dense update on device memory: the launcher of the kernels in dense_update.cu, with the
// contract of dense_update.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::optimizer::gpu {

// mirror: null data for none.
template <typename T>
void dense_update(cudaStream_t stream, const UpdateRule& rule, const float* lr, const int64_t* step,
                  Vector<float> w, Vector<const float> g, Vector<float> state0,
                  Vector<float> state1, const GradientScale& scale, Vector<T> mirror);

}  // namespace hlite::optimizer::gpu
