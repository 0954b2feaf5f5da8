// The dot interaction on device memory: launchers of the kernels in interaction.cu. Formula, shapes
// and aliasing are those of interaction.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"

namespace hlite::ops::gpu {

// Changes the speed, never the bits.
struct InteractionLaunch {
  int64_t shared_bytes = kPlainSharedBytes;  // for one block's tile of input columns
  int64_t max_blocks = int64_t{1} << 20;
};

// Columns of `inputs` vectors of `width` that fit into shared_bytes together, at most `width`; 0
// when not even one does (more than 12288 inputs in 48 KiB: an output row of 300 MB).
int64_t interaction_chunk(int64_t inputs, int64_t width, int64_t shared_bytes);

void interaction_forward(cudaStream_t stream, Matrix<const float> bottom,
                         View<const float, 3> slots, Matrix<float> out,
                         const InteractionLaunch& how = {});
void interaction_backward(cudaStream_t stream, Matrix<const float> bottom,
                          View<const float, 3> slots, Matrix<const float> dout,
                          Matrix<float> dbottom, View<float, 3> dslots,
                          const InteractionLaunch& how = {});

}  // namespace hlite::ops::gpu
