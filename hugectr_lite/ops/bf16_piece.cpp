#include "hugectr_lite/ops/bf16_piece.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/bf16_dot.h"
#include "hugectr_lite/ops/bf16_onednn.h"

namespace hlite::ops {

const char* describe(Bf16Products products) {
  switch (products) {
    case Bf16Products::kAmx:
      return "AMX: bf16 products at many times the rate of fp32";
    case Bf16Products::kAvx512:
      return "AVX-512 BF16: bf16 products at about twice the rate of fp32";
    case Bf16Products::kNone:
      break;
  }
  return "neither AMX nor AVX-512 BF16: bf16 products at the rate of fp32, nothing gained";
}

Bf16Products bf16_products() {
  static const Bf16Products found = [] {
    if (instruction_set() != InstructionSet::kAvx512) return Bf16Products::kNone;
    if (onednn_bf16_products().find("amx") != std::string::npos) return Bf16Products::kAmx;
    return has_bf16_dot() ? Bf16Products::kAvx512 : Bf16Products::kNone;
  }();
  return found;
}

void bf16_piece(const Bf16Sizes& sizes, const bf16* a, const bf16* b, float* c) {
  const Bf16Products products = bf16_products();
  HLITE_CHECK(products != Bf16Products::kNone, "no products of bf16 on this processor");
  (products == Bf16Products::kAmx ? onednn_bf16_piece : bf16_dot_piece)(sizes, a, b, c);
}

}  // namespace hlite::ops
