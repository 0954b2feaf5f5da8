// Column sums on the CPU, taken while a gradient is masked by a ReLU: the bias gradient.
//
// They are taken over fixed blocks of rows, which are combined in row order: their bits depend on
// the number of rows only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/ops/relu.h"

namespace hlite::ops {

constexpr int64_t blocks_of(int64_t rows, int64_t block) { return (rows + block - 1) / block; }

// dz = dy where y > 0 and 0 elsewhere (y null: dy), rounded to T, and its columns, before that
// rounding, added to sums (null: none). dy, of float or T, may be dz. The sums are taken four rows
// at a time: that halves the loads and stores of the pass.
template <typename T, typename D>
void mask_and_sum(const T* y, const D* dy, T* dz, int64_t rows, int64_t n, float* sums) {
  const auto masked = [=](int64_t i) { return relu_gradient(to_float(y[i]), to_float(dy[i])); };
  if (!sums) {
    if (y)
      for (int64_t i = 0; i < rows * n; ++i) dz[i] = from_float<T>(masked(i));
    else if (static_cast<const void*>(dy) != dz)
      for (int64_t i = 0; i < rows * n; ++i) dz[i] = from_float<T>(to_float(dy[i]));
    return;
  }
  const bool writes = y || static_cast<const void*>(dy) != dz;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const int64_t at = i * n;
    const auto sum = [&](auto gradient, bool write) {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) {
        const float d0 = gradient(at + j), d1 = gradient(at + n + j);
        const float d2 = gradient(at + 2 * n + j), d3 = gradient(at + 3 * n + j);
        if (write) {
          dz[at + j] = from_float<T>(d0);
          dz[at + n + j] = from_float<T>(d1);
          dz[at + 2 * n + j] = from_float<T>(d2);
          dz[at + 3 * n + j] = from_float<T>(d3);
        }
        sums[j] += (d0 + d1) + (d2 + d3);
      }
    };
    if (y)
      sum(masked, true);
    else if (writes)
      sum([=](int64_t e) { return to_float(dy[e]); }, true);
    else
      sum([=](int64_t e) { return to_float(dy[e]); }, false);
  }
  for (i *= n; i < rows * n; i += n)
    for (int64_t j = 0; j < n; ++j) {
      const float d = y ? masked(i + j) : to_float(dy[i + j]);
      if (writes) dz[i + j] = from_float<T>(d);
      sums[j] += d;
    }
}

// Column sums of a [rows, columns] matrix as one partial row for each block of kRows rows.
class ColumnSums {
 public:
  static constexpr int64_t kRows = 32;

  ColumnSums(int64_t rows, int64_t columns, bool wanted)
      : columns_(columns), blocks_(wanted ? blocks_of(rows, kRows) : 0) {
    thread_local std::vector<float> workspace;  // grown once
    const auto size = static_cast<size_t>(blocks_ * columns_);
    if (workspace.size() < size) workspace.resize(size);
    partial_ = workspace.data();
  }

  // mask_and_sum() of rows [begin, begin + rows), which the pointers lead to; begin is a multiple
  // of kRows.
  template <typename T, typename D>
  void add(const T* y, const D* dy, T* dz, int64_t begin, int64_t rows) const {
    for (int64_t first = 0; first < rows; first += kRows) {
      float* sums = nullptr;
      if (blocks_ > 0) {
        sums = partial_ + (begin + first) / kRows * columns_;
        std::fill_n(sums, columns_, 0.0f);
      }
      const int64_t at = first * columns_;
      mask_and_sum(y ? y + at : nullptr, dy + at, dz + at, std::min(kRows, rows - first), columns_,
                   sums);
    }
  }

  // out[j] = sum of the partial rows, in row order.
  void combine(ThreadPool& threads, float* out) const {
    constexpr int64_t kColumns = 128;  // of one task; their sums live in L1
    threads.run(blocks_of(columns_, kColumns), [&](int64_t task, int) {
      const int64_t begin = task * kColumns, n = std::min(kColumns, columns_ - begin);
      double sums[kColumns] = {};
      for (int64_t block = 0; block < blocks_; ++block) {
        const float* const row = partial_ + block * columns_ + begin;
        for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<double>(row[j]);
      }
      for (int64_t j = 0; j < n; ++j) out[begin + j] = static_cast<float>(sums[j]);
    });
  }

 private:
  int64_t columns_, blocks_;
  float* partial_;
};

}  // namespace hlite::ops
