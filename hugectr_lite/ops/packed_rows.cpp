#include "hugectr_lite/ops/packed_rows.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/cpu_threads.h"
#include "hugectr_lite/ops/row_sum.h"
#include "hugectr_lite/ops/valid_rows.h"

namespace hlite::ops {
namespace {

constexpr int64_t kPackedChunk = 256;  // columns whose sums live in L1

// body(sample, its first row, their number), a thread at a time.
template <typename T, typename Body>
void for_packed_samples(const Exec& exec, const char* op, Vector<const int64_t> offsets,
                        int64_t operations, const Body& body) {
  wide_for<T>(exec, op, offsets.size() - 1, kElementGrain / (operations + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b) {
                  const int64_t first = offsets.data()[b];
                  body(b, first, offsets.data()[b + 1] - first);
                }
              });
}

// What a sum over a sample's rows is divided by.
float divisor(bool mean, int64_t rows) {
  return mean && rows > 0 ? static_cast<float>(rows) : 1.0f;
}

}  // namespace

void row_offsets(const Exec& exec, Vector<const float> lengths, int64_t n, int64_t last,
                 Vector<int64_t> offsets, Vector<int64_t> firsts) {
  HLITE_CHECK(
      !exec.on_gpu() && offsets.size() == lengths.size() + 1 && firsts.size() == lengths.size(),
      "lengths {}, offsets {}, firsts {}", lengths.shape(), offsets.shape(), firsts.shape());
  int64_t at = 0;
  for (int64_t b = 0; b < lengths.size(); ++b) {
    const int64_t valid = valid_rows(lengths, b, n);
    const int64_t packed = last > 0 ? std::min(last, valid) : valid;
    offsets.data()[b] = at;
    firsts.data()[b] = valid - packed;
    at += packed;
  }
  offsets.data()[lengths.size()] = at;
}

template <typename T>
void cut_rows(const Exec& exec, MatrixOf<const T> from, int64_t begin,
              Vector<const int64_t> offsets, MatrixOf<T> to) {
  const int64_t width = to.dim(1), all = to.dim(0) / std::max<int64_t>(1, from.dim(0));
  for_packed_samples<T>(exec, "cut_rows", offsets, all * width,
                        [&](int64_t b, int64_t first, int64_t rows) {
                          std::copy_n(from.row(b) + begin, rows * width, to.row(first));
                        });
}

template <typename T>
void paste_rows(const Exec& exec, MatrixOf<const T> from, const PackedRows& rows, int64_t n,
                MatrixOf<T> to, int64_t begin) {
  const int64_t width = from.dim(1);
  wide_for<T>(exec, "paste_rows", to.dim(0), kElementGrain / (n * width + 1) + 1,
              [&](int64_t b, int64_t last) {
                for (; b < last; ++b) {
                  const int64_t filled = rows.count(b, n) * width;
                  T* const at = to.row(b) + begin;
                  std::copy_n(from.data() + rows.begin(b, n) * width, filled, at);
                  std::fill(at + filled, at + n * width, from_float<T>(0));
                }
              });
}

template <typename T>
void sum_packed_rows(const Exec& exec, MatrixOf<const T> from, Vector<const int64_t> offsets,
                     bool mean, MatrixOf<T> to) {
  const int64_t width = to.dim(1), all = from.dim(0) / std::max<int64_t>(1, to.dim(0));
  for_packed_samples<T>(exec, "sum_packed_rows", offsets, all * width,
                        [&](int64_t b, int64_t first, int64_t rows) {
                          const float over = divisor(mean, rows);
                          for (int64_t begin = 0; begin < width; begin += kPackedChunk) {
                            const int64_t n = std::min(kPackedChunk, width - begin);
                            float sums[kPackedChunk] = {};
                            for (int64_t i = first; i < first + rows; ++i)
                              for (int64_t j = 0; j < n; ++j)
                                sums[j] += to_float(from.row(i)[begin + j]);
                            for (int64_t j = 0; j < n; ++j)
                              to.row(b)[begin + j] = from_float<T>(sums[j] / over);
                          }
                        });
}

template <typename T>
void repeat_rows(const Exec& exec, MatrixOf<const T> from, Vector<const int64_t> offsets, bool mean,
                 MatrixOf<T> to) {
  const int64_t width = to.dim(1), all = to.dim(0) / std::max<int64_t>(1, from.dim(0));
  for_packed_samples<T>(exec, "repeat_rows", offsets, all * width,
                        [&](int64_t b, int64_t first, int64_t rows) {
                          const float over = divisor(mean, rows);
                          const T* const x = from.row(b);
                          for (int64_t i = first; i < first + rows; ++i) {
                            T* const y = to.row(i);
#pragma GCC ivdep
                            for (int64_t j = 0; j < width; ++j)
                              y[j] = from_float<T>(to_float(x[j]) / over);
                          }
                        });
}

template <typename T>
void weigh_rows(const Exec& exec, MatrixOf<const T> weights, MatrixOf<const T> x,
                Vector<const int64_t> offsets, MatrixOf<T> y) {
  const int64_t width = y.dim(1), all = x.dim(0) / std::max<int64_t>(1, y.dim(0));
  for_packed_samples<T>(exec, "weigh_rows", offsets, all * width,
                        [&](int64_t b, int64_t first, int64_t rows) {
                          for (int64_t begin = 0; begin < width; begin += kPackedChunk) {
                            const int64_t n = std::min(kPackedChunk, width - begin);
                            float sums[kPackedChunk] = {};
                            for (int64_t i = 0; i < rows; ++i) {
                              const float w = to_float(weights.row(b)[i]);
                              const T* const from = x.row(first + i) + begin;
                              for (int64_t j = 0; j < n; ++j) sums[j] += w * to_float(from[j]);
                            }
                            for (int64_t j = 0; j < n; ++j)
                              y.row(b)[begin + j] = from_float<T>(sums[j]);
                          }
                        });
}

template <typename T>
void weigh_rows_backward(const Exec& exec, MatrixOf<const T> weights, MatrixOf<const T> x,
                         MatrixOf<const T> dy, Vector<const int64_t> offsets, MatrixOf<T> dweights,
                         MatrixOf<T> dx) {
  const int64_t width = dy.dim(1), all = x.dim(0) / std::max<int64_t>(1, dy.dim(0));
  for_packed_samples<T>(
      exec, "weigh_rows_backward", offsets, 2 * all * width,
      [&](int64_t b, int64_t first, int64_t rows) {
        const T* const d = dy.row(b);
        for (int64_t i = 0; i < rows; ++i) {
          const T* const from = x.row(first + i);
          if (dweights.data())
            dweights.row(b)[i] = from_float<T>(
                row_sum(width, [&](int64_t j) { return to_float(d[j]) * to_float(from[j]); }));
          if (!dx.data()) continue;
          const float w = to_float(weights.row(b)[i]);
          T* const to = dx.row(first + i);
#pragma GCC ivdep
          for (int64_t j = 0; j < width; ++j) to[j] = from_float<T>(w * to_float(d[j]));
        }
        if (dweights.data())
          std::fill(dweights.row(b) + rows, dweights.row(b) + dweights.dim(1), from_float<T>(0));
      });
}

HLITE_INSTANTIATE_FLOATS(weigh_rows)
HLITE_INSTANTIATE_FLOATS(weigh_rows_backward)
HLITE_INSTANTIATE_FLOATS(cut_rows)
HLITE_INSTANTIATE_FLOATS(paste_rows)
HLITE_INSTANTIATE_FLOATS(sum_packed_rows)
HLITE_INSTANTIATE_FLOATS(repeat_rows)

}  // namespace hlite::ops
