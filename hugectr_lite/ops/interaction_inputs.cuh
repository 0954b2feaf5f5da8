// Input vectors of the interaction kernels. Input 0 of a sample is its bottom vector, inputs 1..n
// are those of its slots (interaction.h).
#pragma once

#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/interaction.h"

namespace hlite::ops::gpu {

template <typename T>
struct StoredInputs {
  Matrix<const T> bottom;  // [B,V]
  View<const T, 3> slots;  // [B,n,V]

  HLITE_HD int64_t samples() const { return bottom.dim(0); }
  HLITE_HD int64_t width() const { return bottom.dim(1); }
  HLITE_HD int64_t count() const { return slots.dim(1) + 1; }
  // Returns input i of sample b, [V]. A sample's slots are contiguous, but do not follow bottom.
  HLITE_HD const T* vector(int64_t b, int64_t i) const {
    return i == 0 ? bottom.row(b) : slots.row(b) + (i - 1) * width();
  }
};

// Returns how many columns, at most `width`, a block stages at a time so that all `inputs` vectors
// fit into shared_bytes as floats. Returns 0 if not even one column fits; 48 KiB hold one column of
// 12288 inputs, whose output row takes 300 MB. Defined in interaction.cu.
int64_t interaction_chunk(int64_t inputs, int64_t width, int64_t shared_bytes);

}  // namespace hlite::ops::gpu
