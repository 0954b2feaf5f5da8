#include "hugectr_lite/ops/gemm_piece.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

#if HLITE_GEMM_ONEDNN
#include <oneapi/dnnl/dnnl.h>

// OpenMP's, without asking for its header: libgomp comes with oneDNN.
extern "C" void omp_set_num_threads(int);
#else
#include <cblas.h>
#endif

namespace hlite::ops {
namespace {

// Idle OpenMP threads spin and would take the cores from our own. The setting is each thread's own.
void keep_single_threaded() {
  thread_local const bool done = [] {
#if HLITE_GEMM_ONEDNN
    omp_set_num_threads(1);
#else
    openblas_set_num_threads(1);
#endif
    return true;
  }();
  static_cast<void>(done);
}

void scale(int64_t m, int64_t n, float beta, Block<float> c) {
  for (int64_t i = 0; i < m; ++i) {
    float* const row = c.data + i * c.stride;
    if (beta == 0)
      std::fill_n(row, n, 0.0f);
    else
      for (int64_t j = 0; j < n; ++j) row[j] *= beta;
  }
}

}  // namespace

void gemm_piece(Transpose ta, Transpose tb, int64_t m, int64_t n, int64_t k, float alpha,
                Block<const float> a, Block<const float> b, float beta, Block<float> c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(m, n, beta, c);
  keep_single_threaded();
#if HLITE_GEMM_ONEDNN
  const auto letter = [](Transpose t) { return t == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(letter(ta), letter(tb), m, n, k, alpha, a.data, a.stride,
                                          b.data, b.stride, beta, c.data, c.stride);
  HLITE_CHECK(status == dnnl_success, "dnnl_sgemm of {} x {} x {}: status {}", m, n, k,
              static_cast<int>(status));
#else
  const auto code = [](Transpose t) { return t == Transpose::kYes ? CblasTrans : CblasNoTrans; };
  const auto size = [](int64_t v) {
    HLITE_CHECK(v <= INT32_MAX, "OpenBLAS takes sizes up to 2^31 - 1, got {}", v);
    return static_cast<blasint>(v);
  };
  cblas_sgemm(CblasRowMajor, code(ta), code(tb), size(m), size(n), size(k), alpha, a.data,
              size(a.stride), b.data, size(b.stride), beta, c.data, size(c.stride));
#endif
}

}  // namespace hlite::ops
