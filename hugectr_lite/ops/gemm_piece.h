// One matrix product on the calling thread, by oneDNN's dnnl_sgemm (OpenBLAS at build time where
// oneDNN is missing), kept from starting threads of its own. Parallel callers cut their product
// into pieces and call this once for each. So no second thread pool spins against ours, bias, ReLU
// and their gradients are applied while a piece is in cache, and ThreadSanitizer sees every thread.
#pragma once

#include <cstdint>

#include "hugectr_lite/ops/gemm.h"

namespace hlite::ops {

// Part of a row-major matrix: element (i, j) at data[i * stride + j].
template <typename T>
struct StridedMatrix {
  T* data;
  int64_t stride;
};

// c [m,n] = alpha op(a) op(b) + beta c as in gemm.h; m, n, k >= 0.
struct Product {
  Transpose ta = Transpose::kNo, tb = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
};
void gemm_piece(const Product& product, StridedMatrix<const float> a, StridedMatrix<const float> b,
                StridedMatrix<float> c);

// Keeps the library's own threads from products of the calling thread.
void keep_single_threaded();

}  // namespace hlite::ops
