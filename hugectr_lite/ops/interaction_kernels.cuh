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

// T: float, bf16 or fp16; sums in float.
template <typename T>
void interaction_forward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                         Matrix<T> out, const InteractionLaunch& how = {});
template <typename T>
void interaction_backward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                          const InteractionLaunch& how = {});

}  // namespace hlite::ops::gpu
