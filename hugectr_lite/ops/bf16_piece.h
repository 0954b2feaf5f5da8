// One product of bf16 matrices on the calling thread, with sums in float, as gemm_piece.h has it
// for float: by AMX through oneDNN (bf16_onednn.h), else by AVX-512's dot products (bf16_dot.h).
#pragma once

#include <compare>
#include <cstdint>

#include "hugectr_lite/core/half.h"

namespace hlite::ops {

// The instructions by which bf16 are multiplied: AMX's tiles, AVX-512's dot products at about twice
// the rate of float, or none, where float products are as fast.
enum class Bf16Products { kNone, kAvx512, kAmx };
// The same at every call. What HLITE_INSTRUCTIONS (core/wide.h) leaves out is none; so is AMX where
// DNNL_MAX_CPU_ISA does.
Bf16Products bf16_products();
// A description for people: "AVX-512 BF16: bf16 products at about twice the rate of fp32".
const char* describe(Bf16Products products);

// The layout of a right factor [k,n] in memory: panels of 64 columns, each all its rows, two
// neighbours of a column side by side; zeros beyond k and n (oneDNN's BA16a64b2a). Aligned to 64
// bytes.
constexpr int64_t kPanelColumns = 64, kPanelRows = 32;
constexpr int64_t in_panel_rows(int64_t k) {
  return (k + kPanelRows - 1) / kPanelRows * kPanelRows;
}
constexpr int64_t panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

// c [m,n] = a b, overwritten; a [m,k] and c packed row after row, b in panels. m, n, k > 0.
// REQUIRES bf16_products() != kNone.
struct Bf16Sizes {
  int64_t m, n, k;
  friend auto operator<=>(const Bf16Sizes&, const Bf16Sizes&) = default;
};
void bf16_piece(const Bf16Sizes& sizes, const bf16* a, const bf16* b, float* c);

}  // namespace hlite::ops
