// bf16_piece() (bf16_piece.h) by oneDNN's matmul primitives: AMX.
#pragma once

#include <string>

#include "hugectr_lite/ops/bf16_piece.h"

namespace hlite::ops {

// The library's name of its products of bf16 with packed factors ("brg:avx512_core_bf16_amx_bf16",
// "brg_matmul:avx10_1_512_amx"); empty where it has none, on this processor or under
// DNNL_MAX_CPU_ISA.
std::string onednn_bf16_products();

// Does what bf16_piece() does, on the calling thread. Keeps a primitive for each size that the
// thread has met; a call takes a few small blocks of memory and gives them back. REQUIRES
// onednn_bf16_products().
void onednn_bf16_piece(const Bf16Sizes& sizes, const bf16* a, const bf16* b, float* c);

}  // namespace hlite::ops
