#include "hugectr_lite/ops/pair_product.h"

#include <algorithm>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"

namespace hlite::ops {
namespace {

// body(sample, row) for all rows, from 0 on, those of a sample by one thread in their order.
template <typename T, typename Body>
void for_pairs(const Exec& exec, const char* op, Vector<const int64_t> offsets, int64_t rows,
               int64_t operations, const Body& body) {
  const int64_t samples = offsets.size() - 1;
  const int64_t each = (rows / std::max<int64_t>(1, samples) + 1) * operations;
  wide_for<T>(exec, op, samples, kElementGrain / each + 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t i = offsets.data()[b]; i < offsets.data()[b + 1]; ++i)
        body(b, i - offsets.data()[0]);
  });
}

}  // namespace

template <typename T>
void fold_pair_weights(const Exec& exec, Matrix<const float> w, MatrixOf<T> folded) {
  const int64_t part = w.size() / 4;
  const float* const from = w.data();
  T* const to = folded.data();
  wide_for<T>(exec, "fold_pair_weights", part, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float w3 = from[2 * part + i];
      to[i] = from_float<T>(from[part + i] - w3);
      to[part + i] = from_float<T>(from[3 * part + i]);
      to[2 * part + i] = from_float<T>(from[i] + w3);
    }
  });
}

void unfold_pair_gradients(const Exec& exec, Matrix<const float> folded, Matrix<float> dw) {
  const int64_t part = dw.size() / 4;
  const float* const from = folded.data();
  float* const to = dw.data();
  wide_for<float>(exec, "unfold_pair_gradients", part, kElementGrain,
                  [=](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      to[i] = from[2 * part + i];
                      to[part + i] = from[i];
                      to[2 * part + i] = from[2 * part + i] - from[i];
                      to[3 * part + i] = from[part + i];
                    }
                  });
}

template <typename T>
void make_pairs(const Exec& exec, MatrixOf<const T> q, MatrixOf<const T> h,
                Vector<const int64_t> offsets, MatrixOf<T> pairs) {
  const int64_t width = h.dim(1);
  for_pairs<T>(exec, "make_pairs", offsets, h.dim(0), 2 * width, [=](int64_t b, int64_t i) {
    const T* const target = q.row(b);
    const T* const from = h.row(i);
    T* const to = pairs.row(i);
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) {
      to[j] = from[j];
      to[width + j] = from_float<T>(to_float(target[j]) * to_float(from[j]));
    }
  });
}

template <typename T>
void make_pairs_backward(const Exec& exec, MatrixOf<const T> q, MatrixOf<const T> pairs,
                         MatrixOf<const T> dpairs, Vector<const int64_t> offsets, MatrixOf<T> dq,
                         MatrixOf<T> dh) {
  constexpr int64_t kChunk = 256;  // columns whose sums live in L1
  const int64_t width = q.dim(1), all = pairs.dim(0) / std::max<int64_t>(1, q.dim(0)) + 1;
  wide_for<T>(exec, "make_pairs_backward", q.dim(0), kElementGrain / (3 * all * width + 1) + 1,
              [=](int64_t first, int64_t last) {
                for (int64_t b = first; b < last; ++b)
                  for (int64_t begin = 0; begin < width; begin += kChunk) {
                    const int64_t n = std::min(kChunk, width - begin);
                    const T* const target = q.row(b) + begin;
                    float sums[kChunk] = {};
                    const int64_t end = offsets.data()[b + 1] - offsets.data()[0];
                    for (int64_t i = offsets.data()[b] - offsets.data()[0]; i < end; ++i) {
                      const T* const h = pairs.row(i) + begin;
                      const T* const d = dpairs.row(i) + begin;
                      for (int64_t j = 0; j < n; ++j)
                        sums[j] += to_float(h[j]) * to_float(d[width + j]);
                      if (!dh.data()) continue;
                      T* const to = dh.row(i) + begin;
#pragma GCC ivdep
                      for (int64_t j = 0; j < n; ++j)
                        to[j] = from_float<T>(to_float(d[j]) +
                                              to_float(target[j]) * to_float(d[width + j]));
                    }
                    if (!dq.data()) continue;
                    T* const to = dq.row(b) + begin;
                    for (int64_t j = 0; j < n; ++j)
                      to[j] = from_float<T>(to_float(to[j]) + sums[j]);
                  }
              });
}

template <typename T>
void add_sample_rows(const Exec& exec, MatrixOf<const T> x, Vector<const int64_t> offsets,
                     MatrixOf<T> y) {
  const int64_t width = y.dim(1);
  for_pairs<T>(exec, "add_sample_rows", offsets, y.dim(0), width, [=](int64_t b, int64_t i) {
    const T* const from = x.row(b);
    T* const to = y.row(i);
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) to[j] = from_float<T>(to_float(to[j]) + to_float(from[j]));
  });
}

HLITE_INSTANTIATE_FLOATS(fold_pair_weights)
HLITE_INSTANTIATE_FLOATS(make_pairs)
HLITE_INSTANTIATE_FLOATS(make_pairs_backward)
HLITE_INSTANTIATE_FLOATS(add_sample_rows)

}  // namespace hlite::ops
