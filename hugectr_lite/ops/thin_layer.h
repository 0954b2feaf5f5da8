// Fully connected layers on the CPU of few inputs or one output, whose products are as large as
// what they read or write: a library's products would spend their time on packing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/core/wide.h"
#include "hugectr_lite/ops/cpu_column_sums.h"
#include "hugectr_lite/ops/lanes.h"
#include "hugectr_lite/ops/relu.h"

namespace hlite::ops {

// On AVX-512; the registers of AVX2 hold too little of a tile to win.
inline bool is_thin(int64_t in, int64_t out) {
  return (in <= 32 || out == 1) && instruction_set() == InstructionSet::kAvx512;
}

namespace thin {

constexpr int kVectors = 4;  // of a tile

// body.template operator()<n>(first) for tiles of rows [first, first + n) that cover [i, rows): of
// kRows as far as they go, then of fewer.
template <int kRows, typename Body>
HLITE_INLINE void for_tiles(int64_t rows, Body&& body, int64_t i = 0) {
  for (; i + kRows <= rows; i += kRows) body.template operator()<kRows>(i);
  if constexpr (kRows > 1) for_tiles<kRows / 2>(rows, body, i);
}

template <int kLanes, typename T>
HLITE_INLINE float dot(const T* a, const T* b, int64_t n) {
  Lanes<kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums += load<kLanes>(a + i) * load<kLanes>(b + i);
  float sum = 0;
  for (; i < n; ++i) sum += to_float(a[i]) * to_float(b[i]);
  const Eight eight = fold(sums);
  for (int lane = 0; lane < 8; ++lane) sum += eight[lane];
  return sum;
}

// Sums [kRows, kTile * kLanes] of a layer's result: rows from `row` on, columns from `column` on.
template <int kLanes, int kRows, int kTile, typename T, typename Y>
HLITE_INLINE void forward_tile(Matrix<const T> x, Matrix<const T> w, const Y* bias, bool apply_relu,
                               int64_t row, int64_t column, Matrix<Y> y) {
  Lanes<kLanes> sums[kRows][kTile] = {};
  if (bias)
    for (int i = 0; i < kRows; ++i)
      for (int q = 0; q < kTile; ++q) sums[i][q] = load<kLanes>(bias + column + q * kLanes);
  for (int64_t k = 0; k < x.dim(1); ++k)
#pragma GCC unroll 4
    for (int q = 0; q < kTile; ++q) {
      const auto weights = load<kLanes>(w.row(k) + column + q * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][q] += to_float(x.row(row + i)[k]) * weights;
    }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < kTile; ++q) {
      float out[kLanes];
      store(out, apply_relu ? (sums[i][q] <= 0 ? Lanes<kLanes>{} : sums[i][q]) : sums[i][q]);
      narrow(out, kLanes, y.row(row + i) + column + q * kLanes);
    }
}

// dw[row + i][column ...] (+)= the sum over the batch of x[b][row + i] dz[b][column ...].
template <int kLanes, int kRows, int kTile, typename T>
HLITE_INLINE void weights_tile(Matrix<const T> x, Matrix<const T> dz, int64_t row, int64_t column,
                               bool adds, Matrix<float> dw) {
  Lanes<kLanes> sums[kRows][kTile] = {};
  if (adds)
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int q = 0; q < kTile; ++q)
        sums[i][q] = load<kLanes>(dw.row(row + i) + column + q * kLanes);
  for (int64_t b = 0; b < x.dim(0); ++b)
#pragma GCC unroll 4
    for (int q = 0; q < kTile; ++q) {
      const auto gradient = load<kLanes>(dz.row(b) + column + q * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][q] += to_float(x.row(b)[row + i]) * gradient;
    }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int q = 0; q < kTile; ++q) store(dw.row(row + i) + column + q * kLanes, sums[i][q]);
}

// Columns [column, end) of dw (+)= x^T dz.
template <int kLanes, typename T>
HLITE_INLINE void add_samples(Matrix<const T> x, Matrix<const T> dz, int64_t column, int64_t end,
                              bool adds, Matrix<float> dw) {
  const auto columns = [&]<int kTile>() {
    for (; column + kTile * kLanes <= end; column += kTile * kLanes)
      for_tiles<kLanes == 16 ? 7 : 3>(dw.dim(0), [&]<int kRows>(int64_t row) {
        weights_tile<kLanes, kRows, kTile>(x, dz, row, column, adds, dw);
      });
  };
  columns.template operator()<kVectors>();
  columns.template operator()<1>();
  for (int64_t i = 0; i < dw.dim(0); ++i)
    for (int64_t j = column; j < end; ++j) {
      float sum = adds ? dw.row(i)[j] : 0;
      for (int64_t b = 0; b < x.dim(0); ++b) sum += to_float(x.row(b)[i]) * to_float(dz.row(b)[j]);
      dw.row(i)[j] = sum;
    }
}

}  // namespace thin

// y = act(x w + b) on the calling thread. REQUIRES is_thin().
template <typename T, typename Y>
void thin_forward(Matrix<const T> x, Matrix<const T> w, const Y* bias, bool apply_relu,
                  Matrix<Y> y) {
  const auto put = [&](int64_t row, int64_t column, float z) {
    if (bias) z += to_float(bias[column]);
    y.row(row)[column] = from_float<Y>(apply_relu ? relu(z) : z);
  };
  wide([&]<int kLanes>() {
    if (w.dim(1) == 1) {
      for (int64_t i = 0; i < x.dim(0); ++i)
        put(i, 0, thin::dot<kLanes>(x.row(i), w.data(), x.dim(1)));
      return;
    }
    int64_t column = 0;
    const auto columns = [&]<int kTile>() {
      for (; column + kTile * kLanes <= y.dim(1); column += kTile * kLanes)
        thin::for_tiles<kLanes == 16 ? 6 : 3>(y.dim(0), [&]<int kRows>(int64_t row) {
          thin::forward_tile<kLanes, kRows, kTile>(x, w, bias, apply_relu, row, column, y);
        });
    };
    columns.template operator()<thin::kVectors>();
    columns.template operator()<1>();
    for (; column < y.dim(1); ++column)
      for (int64_t i = 0; i < y.dim(0); ++i) {
        float sum = 0;
        for (int64_t k = 0; k < x.dim(1); ++k)
          sum += to_float(x.row(i)[k]) * to_float(w.row(k)[column]);
        put(i, column, sum);
      }
  });
}

// dw = x^T dz. REQUIRES is_thin().
template <typename T>
void thin_backward_weights(ThreadPool& threads, Matrix<const T> x, Matrix<const T> dz,
                           Matrix<float> dw) {
  if (dw.dim(1) == 1) {
    constexpr int64_t kColumns = 128;  // of one task; their sums live in L1
    return threads.run(blocks_of(x.dim(1), kColumns), [&](int64_t task, int) {
      const int64_t begin = task * kColumns, n = std::min(kColumns, x.dim(1) - begin);
      float sums[kColumns] = {};
      wide([&] {
        for (int64_t b = 0; b < x.dim(0); ++b) {
          const float d = to_float(dz.data()[b]);
          const T* const row = x.row(b) + begin;
          for (int64_t j = 0; j < n; ++j) sums[j] += to_float(row[j]) * d;
        }
      });
      std::copy_n(sums, n, dw.data() + begin);
    });
  }
  if (x.dim(0) == 0) std::fill_n(dw.data(), dw.size(), 0.0f);
  constexpr int64_t kColumns = 64;
  constexpr int64_t kSamples = 64;  // whose gradients stay in L2 while the rows of dw pass by
  threads.parallel_for(blocks_of(dw.dim(1), kColumns), 1, [&](int64_t first, int64_t last) {
    const int64_t end = std::min(dw.dim(1), last * kColumns);
    wide([&]<int kLanes>() {
      for (int64_t b = 0; b < x.dim(0); b += kSamples) {
        const int64_t stop = std::min(x.dim(0), b + kSamples);
        thin::add_samples<kLanes>(x.rows(b, stop), dz.rows(b, stop), first * kColumns, end, b > 0,
                                  dw);
      }
    });
  });
}

}  // namespace hlite::ops
