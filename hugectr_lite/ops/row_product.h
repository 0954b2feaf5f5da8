// Matrix products for evaluation and serving, in float on the CPU: a row of the result has the same
// bits whatever rows it is multiplied with.
//
// Libraries choose kernels by size, so their sums differ in the last bits with the number of rows.
// Here every element is one chain of sums in the order of k. Register tiles, blocks and threads
// only decide which chains advance together.
#pragma once

#include "hugectr_lite/ops/gemm_piece.h"

namespace hlite::ops {

// c [m,n] = a b, overwritten; a [m,k], b [k,n]. k = 0 gives zeros. Runs on the calling thread. The
// bits of a row of c depend on its row of a, on b and on the instruction set only.
void row_product(int64_t m, int64_t n, int64_t k, StridedMatrix<const float> a,
                 StridedMatrix<const float> b, StridedMatrix<float> c);

}  // namespace hlite::ops
