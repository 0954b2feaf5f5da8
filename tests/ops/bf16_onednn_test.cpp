// What multiplies by AMX, also where that is missing: there the library takes AVX-512 for the same.
#include "hugectr_lite/ops/bf16_onednn.h"

#include "tests/ops/bf16_piece_case.h"

namespace hlite::test {

TEST_CASE("oneDNN's products of bf16 are those of their values") {
  if (!ops::onednn_bf16_products().empty() && ops::bf16_products() != ops::Bf16Products::kNone)
    check_bf16_piece(ops::onednn_bf16_piece);
}

}  // namespace hlite::test
