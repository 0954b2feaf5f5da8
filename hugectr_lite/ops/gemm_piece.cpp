#include "hugectr_lite/ops/gemm_piece.h"

#include <algorithm>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/ops/lanes.h"

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

// The library's product; m, n, k > 0.
void multiply(Transpose ta, Transpose tb, int64_t m, int64_t n, int64_t k, float alpha,
              Block<const float> a, Block<const float> b, float beta, Block<float> c) {
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

// to[j][i] = from[i][j] for i < rows, j < columns.
void transpose(Block<const float> from, int64_t rows, int64_t columns, Block<float> to) {
  const int64_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (int64_t i = 0; i < whole_rows; i += kLanes) {
    for (int64_t j = 0; j < whole_columns; j += kLanes) {
      const float* const in = from.data + i * from.stride + j;
      float* const out = to.data + j * to.stride + i;
      Lanes zipped[8], paired[8];
#pragma GCC unroll 4
      for (int r = 0; r < 8; r += 2) {
        const Lanes even = load(in + r * from.stride), odd = load(in + (r + 1) * from.stride);
        zipped[r] = zip_low(even, odd);
        zipped[r + 1] = zip_high(even, odd);
      }
#pragma GCC unroll 2
      for (int r = 0; r < 8; r += 4) {
        paired[r] = pair_low(zipped[r], zipped[r + 2]);
        paired[r + 1] = pair_high(zipped[r], zipped[r + 2]);
        paired[r + 2] = pair_low(zipped[r + 1], zipped[r + 3]);
        paired[r + 3] = pair_high(zipped[r + 1], zipped[r + 3]);
      }
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        store(out + r * to.stride, first_halves(paired[r], paired[r + 4]));
        store(out + (r + 4) * to.stride, second_halves(paired[r], paired[r + 4]));
      }
    }
  }
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      to.data[j * to.stride + i] = from.data[i * from.stride + j];
}

// Weight gradients, x^T dz: for small results oneDNN reads x where it lies, down its columns. With
// rows a multiple of 2 KiB apart these reads fall into the same few sets of the cache, and the
// product takes up to twice as long as one with x turned beforehand.
bool worth_turning(int64_t m, int64_t n, int64_t a_stride) {
  constexpr double kReadsInPlace = 0.0038;  // oneDNN's own bound (gemm_driver.cpp)
  return a_stride % 512 == 0 && m >= 32 && n >= 32 &&
         1 / static_cast<double>(m) + 1 / static_cast<double>(n) >= kReadsInPlace;
}

// c = alpha a^T b + beta c with a turned into a scratch copy, some rows of a and b at a time.
void multiply_turned(Transpose tb, int64_t m, int64_t n, int64_t k, float alpha,
                     Block<const float> a, Block<const float> b, float beta, Block<float> c) {
  constexpr int64_t kRows = 256, kStride = kRows + 16;
  thread_local std::vector<float> scratch;  // grown once
  const auto size = static_cast<size_t>(m * kStride);
  if (scratch.size() < size) scratch.resize(size);
  for (int64_t l = 0; l < k; l += kRows) {
    const int64_t rows = std::min(kRows, k - l);
    transpose({a.data + l * a.stride, a.stride}, rows, m, {scratch.data(), kStride});
    const float* const b_rows = b.data + l * (tb == Transpose::kYes ? 1 : b.stride);
    multiply(Transpose::kNo, tb, m, n, rows, alpha, {scratch.data(), kStride}, {b_rows, b.stride},
             l == 0 ? beta : 1, c);
  }
}

}  // namespace

void gemm_piece(Transpose ta, Transpose tb, int64_t m, int64_t n, int64_t k, float alpha,
                Block<const float> a, Block<const float> b, float beta, Block<float> c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(m, n, beta, c);
  keep_single_threaded();
  if (ta == Transpose::kYes && worth_turning(m, n, a.stride))
    multiply_turned(tb, m, n, k, alpha, a, b, beta, c);
  else
    multiply(ta, tb, m, n, k, alpha, a, b, beta, c);
}

}  // namespace hlite::ops
