#include "hugectr_lite/ops/fm_order2.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

constexpr int64_t kFmChunk = 256;  // columns whose sums live in L1

// body(sample, first column, columns) for chunks of all samples' columns.
template <typename T, typename Body>
void for_each_fm_chunk(const Exec& exec, const char* op, View<const T, 3> x, Body&& body) {
  const int64_t width = x.dim(2);
  wide_for<T>(exec, op, x.dim(0), kElementGrain / (x.dim(1) * width + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b)
                  for (int64_t first = 0; first < width; first += kFmChunk)
                    body(b, first, std::min(kFmChunk, width - first));
              });
}

template <typename T>
void check_fm_order2(const char* op, View<const T, 3> x, Matrix<const T> y) {
  HLITE_CHECK(x.dim(0) == y.dim(0) && x.dim(2) == y.dim(1), "{}: x {}, y {}", op, x.shape(),
              y.shape());
}

}  // namespace

template <typename T>
void fm_order2_forward(const Exec& exec, ViewOf<const T, 3> x, MatrixOf<T> y) {
  constexpr const char* kName = "fm_order2_forward";
  check_fm_order2<T>(kName, x, y);
  if (exec.on_gpu()) return kernels::fm_order2_forward<T>(exec, x, y);
  const int64_t slots = x.dim(1), width = x.dim(2);
  for_each_fm_chunk<T>(exec, kName, x, [&](int64_t b, int64_t first, int64_t n) {
    float sum[kFmChunk] = {}, pairs[kFmChunk] = {};
    for (int64_t s = 0; s < slots; ++s) {
      const T* const z = x.row(b) + s * width + first;
      for (int64_t v = 0; v < n; ++v) {
        pairs[v] += to_float(z[v]) * sum[v];
        sum[v] += to_float(z[v]);
      }
    }
    for (int64_t v = 0; v < n; ++v) y.row(b)[first + v] = from_float<T>(pairs[v]);
  });
}

template <typename T>
void fm_order2_backward(const Exec& exec, ViewOf<const T, 3> x, MatrixOf<const T> dy,
                        ViewOf<T, 3> dx) {
  constexpr const char* kName = "fm_order2_backward";
  check_fm_order2<T>(kName, x, dy);
  HLITE_CHECK(dx.dim(0) == x.dim(0) && dx.dim(1) == x.dim(1) && dx.dim(2) == x.dim(2),
              "{}: x {}, dx {}", kName, x.shape(), dx.shape());
  if (exec.on_gpu()) return kernels::fm_order2_backward<T>(exec, x, dy, dx);
  const int64_t slots = x.dim(1), width = x.dim(2);
  for_each_fm_chunk<T>(exec, kName, x, [&](int64_t b, int64_t first, int64_t n) {
    float sum[kFmChunk] = {};
    for (int64_t s = 0; s < slots; ++s)
      for (int64_t v = 0; v < n; ++v) sum[v] += to_float(x.row(b)[s * width + first + v]);
    const T* const above = dy.row(b) + first;
    for (int64_t s = 0; s < slots; ++s) {
      const T* const z = x.row(b) + s * width + first;
      T* const to = dx.row(b) + s * width + first;
      for (int64_t v = 0; v < n; ++v)
        to[v] = from_float<T>(to_float(above[v]) * (sum[v] - to_float(z[v])));
    }
  });
}

HLITE_INSTANTIATE_FLOATS(fm_order2_forward)
HLITE_INSTANTIATE_FLOATS(fm_order2_backward)

}  // namespace hlite::ops
