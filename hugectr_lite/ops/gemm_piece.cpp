#include "hugectr_lite/ops/gemm_piece.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/transpose.h"

#if HLITE_GEMM_ONEDNN
#include "hugectr_lite/ops/onednn.h"
#else
#include <cblas.h>
#endif

namespace hlite::ops {
namespace {

void scale(int64_t m, int64_t n, float beta, StridedMatrix<float> c) {
  for (int64_t i = 0; i < m; ++i) {
    float* const row = c.data + i * c.stride;
    if (beta == 0)
      std::fill_n(row, n, 0.0f);
    else
      for (int64_t j = 0; j < n; ++j) row[j] *= beta;
  }
}

// The library's product; m, n, k > 0.
void multiply(const Product& p, StridedMatrix<const float> a, StridedMatrix<const float> b,
              StridedMatrix<float> c) {
#if HLITE_GEMM_ONEDNN
  const auto letter = [](Transpose t) { return t == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status =
      onednn().sgemm(letter(p.ta), letter(p.tb), p.m, p.n, p.k, p.alpha, a.data, a.stride, b.data,
                     b.stride, p.beta, c.data, c.stride);
  HLITE_CHECK(status == dnnl_success, "dnnl_sgemm of {} x {} x {}: status {}", p.m, p.n, p.k,
              static_cast<int>(status));
#else
  const auto code = [](Transpose t) { return t == Transpose::kYes ? CblasTrans : CblasNoTrans; };
  const auto size = [](int64_t v) {
    HLITE_CHECK(v <= INT32_MAX, "OpenBLAS takes sizes up to 2^31 - 1, got {}", v);
    return static_cast<blasint>(v);
  };
  cblas_sgemm(CblasRowMajor, code(p.ta), code(p.tb), size(p.m), size(p.n), size(p.k), p.alpha,
              a.data, size(a.stride), b.data, size(b.stride), p.beta, c.data, size(c.stride));
#endif
}

// Returns true for small results, for which oneDNN reads a and b where they lie instead of packing
// them first. Where rows lie a multiple of 2 KiB apart, walking down them falls into the same few
// sets of the cache, and the product takes up to twice as long; packing such an a suffers too where
// b is narrow. Copies with other strides avoid that; they cost one pass over the operand.
bool reads_in_place(int64_t m, int64_t n) {
  constexpr double kBound = 0.0038;  // oneDNN's own (gemm_driver.cpp)
  return 1 / static_cast<double>(m) + 1 / static_cast<double>(n) >= kBound;
}
bool aliases(int64_t stride) { return stride % 512 == 0; }

// Which operands to copy, each used often enough.
struct Copies {
  bool a = false, b = false;
};
Copies worth_copying(const Product& p, int64_t a_stride, int64_t b_stride) {
  if (!HLITE_GEMM_ONEDNN) return {};
  const bool in_place = reads_in_place(p.m, p.n);
  return {.a = p.ta == Transpose::kYes && aliases(a_stride) && p.m >= 32 && p.n >= 32 &&
               (in_place || p.n <= 512),
          .b = p.tb == Transpose::kNo && aliases(b_stride) && p.m >= 96 && p.n >= 32 && in_place};
}

float* grow(std::vector<float>& scratch, int64_t size) {
  if (scratch.size() < static_cast<size_t>(size)) scratch.resize(static_cast<size_t>(size));
  return scratch.data();
}

// The product with a turned and b moved into scratch copies, some of k at a time.
void multiply_copies(Copies copies, const Product& p, StridedMatrix<const float> a,
                     StridedMatrix<const float> b, StridedMatrix<float> c) {
  constexpr int64_t kDepth = 512, kPadding = 16;
  thread_local std::vector<float> a_scratch, b_scratch;  // grown once
  for (int64_t l = 0; l < p.k; l += kDepth) {
    Product part = p;
    part.k = std::min(kDepth, p.k - l);
    if (l > 0) part.beta = 1;
    StridedMatrix<const float> a_part{a.data + l * (p.ta == Transpose::kYes ? a.stride : 1),
                                      a.stride};
    StridedMatrix<const float> b_part{b.data + l * (p.tb == Transpose::kYes ? 1 : b.stride),
                                      b.stride};
    if (copies.a) {
      const StridedMatrix<float> turned{grow(a_scratch, p.m * (kDepth + kPadding)),
                                        kDepth + kPadding};
      wide([&] { transpose(a_part, part.k, p.m, turned); });
      a_part = {turned.data, turned.stride};
      part.ta = Transpose::kNo;
    }
    if (copies.b) {
      const StridedMatrix<float> moved{grow(b_scratch, kDepth * (p.n + kPadding)), p.n + kPadding};
      for (int64_t i = 0; i < part.k; ++i)
        std::copy_n(b_part.data + i * b_part.stride, p.n, moved.data + i * moved.stride);
      b_part = {moved.data, moved.stride};
    }
    multiply(part, a_part, b_part, c);
  }
}

}  // namespace

// Idle OpenMP threads spin and would take the cores from our own. The setting is each thread's own.
void keep_single_threaded() {
  thread_local const bool done = [] {
#if HLITE_GEMM_ONEDNN
    onednn().omp_set_num_threads(1);
#else
    openblas_set_num_threads(1);
#endif
    return true;
  }();
  static_cast<void>(done);
}

void gemm_piece(const Product& product, StridedMatrix<const float> a, StridedMatrix<const float> b,
                StridedMatrix<float> c) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) return scale(product.m, product.n, product.beta, c);
  keep_single_threaded();
  const Copies copies = worth_copying(product, a.stride, b.stride);
  if (copies.a || copies.b)
    multiply_copies(copies, product, a, b, c);
  else
    multiply(product, a, b, c);
}

}  // namespace hlite::ops
