// The dot interaction on device memory: launchers of the kernels in interaction.cu. Formula, shapes
// and aliasing are those of interaction.h.
#pragma once

#include <cstdint>

#include "hugectr_lite/core/launch.cuh"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/interaction.h"

namespace hlite::ops::gpu {

// For every max_blocks the bits are the same. shared_bytes decides which kernel takes a shape: one
// in which a warp has a sample in its share of them, else one that takes any shape by chunks of
// columns.
struct InteractionLaunch {
  int64_t shared_bytes = kPlainSharedBytes;  // of a block, at most
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
void interaction_forward_gather(cudaStream_t stream, Matrix<const T> bottom, const OneHotRows& rows,
                                Matrix<T> out, View<T, 3> slots, const InteractionLaunch& how = {});
template <typename T>
void interaction_backward(cudaStream_t stream, Matrix<const T> bottom, View<const T, 3> slots,
                          Matrix<const T> dout, Matrix<T> dbottom, View<T, 3> dslots,
                          int32_t* overflow = nullptr, const InteractionLaunch& how = {});

}  // namespace hlite::ops::gpu
