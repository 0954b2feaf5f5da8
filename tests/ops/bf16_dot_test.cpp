#include "hugectr_lite/ops/bf16_dot.h"

#include "tests/ops/bf16_piece_case.h"

namespace hlite::test {

TEST_CASE("AVX-512's dot products of bf16 are those of their values") {
  if (ops::has_bf16_dot()) check_bf16_piece(ops::bf16_dot_piece);
}

}  // namespace hlite::test
