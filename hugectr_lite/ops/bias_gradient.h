// Bias gradients on the CPU: a gradient is masked by a ReLU, and its columns summed on the way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hugectr_lite/core/half.h"
#include "hugectr_lite/ops/activation.h"
#include "hugectr_lite/ops/cpu_column_sums.h"

namespace hlite::ops {

// Makes, for rows [0, rows) of n columns, d = gradient(row, column), or 0 where y > 0 is false (y
// null: d); written to dz, rounded to T (null: not), and, before that rounding, added to sums[n]
// (null: not). gradient() may read dz. The sums are taken four rows at a time: that halves the
// loads and stores of the pass. For the body of wide().
template <typename T, typename Gradient>
void mask_and_sum(const T* y, const Gradient& gradient, T* dz, int64_t rows, int64_t n,
                  float* sums) {
  const auto pass = [&]<bool kMasks, bool kWrites, bool kSums>() {
    const auto masked = [&](int64_t row, int64_t j) {
      const float d = gradient(row, j);
      if constexpr (kMasks) return relu_gradient(to_float(y[row * n + j]), d);
      return d;
    };
    const auto put = [&](int64_t row, int64_t j, float d) {
      if constexpr (kWrites) dz[row * n + j] = from_float<T>(d);
    };
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4)
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) {
        const float d0 = masked(i, j), d1 = masked(i + 1, j);
        const float d2 = masked(i + 2, j), d3 = masked(i + 3, j);
        put(i, j, d0);
        put(i + 1, j, d1);
        put(i + 2, j, d2);
        put(i + 3, j, d3);
        if constexpr (kSums) sums[j] += (d0 + d1) + (d2 + d3);
      }
    for (; i < rows; ++i)
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) {
        const float d = masked(i, j);
        put(i, j, d);
        if constexpr (kSums) sums[j] += d;
      }
  };
  if (y && sums) return pass.template operator()<true, true, true>();
  if (y) return pass.template operator()<true, true, false>();
  if (dz && sums) return pass.template operator()<false, true, true>();
  if (dz) return pass.template operator()<false, true, false>();
  if (sums) pass.template operator()<false, false, true>();
}

// The bias gradient [columns] of a batch, whose parts tasks add.
class BiasGradient {
 public:
  static constexpr int64_t kRows = 32;  // of a block: parts begin at multiples of it

  // out: null if not needed.
  BiasGradient(int64_t rows, int64_t columns, float* out)
      : columns_(columns), out_(out), sums_(out ? blocks_of(rows, kRows) : 0, columns) {}

  // mask_and_sum() of rows [begin, end), with row numbers of gradient() and pointers of the batch.
  template <typename T, typename Gradient>
  void add(const T* y, const Gradient& gradient, T* dz, int64_t begin, int64_t end) const {
    for (int64_t first = begin; first < end; first += kRows) {
      float* const sums = out_ ? sums_.start(first / kRows) : nullptr;
      const int64_t at = first * columns_;
      wide([&] {
        mask_and_sum<T>(
            y ? y + at : nullptr,
            [&](int64_t row, int64_t column) { return gradient(first + row, column); },
            dz ? dz + at : nullptr, std::min(kRows, end - first), columns_, sums);
      });
    }
  }
  void combine(ThreadPool& threads) const {
    if (out_) sums_.combine(threads, out_);
  }

 private:
  int64_t columns_;
  float* out_;
  BlockSums sums_;
};

}  // namespace hlite::ops
