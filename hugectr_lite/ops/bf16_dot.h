// bf16_piece() (bf16_piece.h) by AVX-512's dot products of bf16 pairs, without a library.
#pragma once

#include "hugectr_lite/ops/bf16_piece.h"

namespace hlite::ops {

// Returns true if the processor and HLITE_INSTRUCTIONS (core/wide.h) allow it. The same at every
// call.
bool has_bf16_dot();

// Does what bf16_piece() does, on the calling thread; allocates nothing. Sums of neighbouring k
// come first, as the instruction has it, then those of pairs in their order. REQUIRES
// has_bf16_dot().
void bf16_dot_piece(const Bf16Sizes& sizes, const bf16* a, const bf16* b, float* c);

}  // namespace hlite::ops
