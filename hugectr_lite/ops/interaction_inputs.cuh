// A sample's vectors, as the interaction kernels find them.
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
  // Slots lie one after another, but not directly after bottom.
  HLITE_HD const T* vector(int64_t b, int64_t i) const {
    return i == 0 ? bottom.row(b) : slots.row(b) + (i - 1) * width();
  }
};

// Columns of `inputs` vectors of `width` that fit into shared_bytes together, at most `width`; 0
// when not even one does (more than 12288 inputs in 48 KiB:
// an output row of 300 MB). In interaction.cu.
int64_t interaction_chunk(int64_t inputs, int64_t width, int64_t shared_bytes);

}  // namespace hlite::ops::gpu
