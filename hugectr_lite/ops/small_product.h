// Products of small matrices of float on the calling thread, where a library would take longer to
// begin than to multiply: rows of a few numbers, or one row (a weighted sum).
//
// Every element is a sum in an order that the shape alone decides, so its bits do not depend on
// what else a batch has.
#pragma once

#include <cstdint>

#include "hugectr_lite/ops/gemm_piece.h"

namespace hlite::ops {

// Element (i, p) at data[i * row + p * column]: a matrix, or its transpose.
struct LeftFactor {
  const float* data;
  int64_t row, column;
};

// c [m,n] = a b, or with `add` c + a b, for which n is a multiple of 8. a [m,k], b [k,n].
void small_product(int64_t m, int64_t n, int64_t k, LeftFactor a, StridedMatrix<const float> b,
                   StridedMatrix<float> c, bool add = false);

// c [m,n] = a b^T. a [m,k], b [n,k].
void small_product_of_rows(int64_t m, int64_t n, int64_t k, StridedMatrix<const float> a,
                           StridedMatrix<const float> b, StridedMatrix<float> c);

}  // namespace hlite::ops
