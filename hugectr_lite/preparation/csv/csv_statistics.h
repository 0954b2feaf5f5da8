// Mean and deviation of a column of doubles on disk, the same for any number of threads.
#pragma once

#include <cmath>
#include <cstdint>

#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite::prep {

struct DenseStatistics {
  int64_t count = 0;             // values that are not missing
  double mean = 0, squares = 0;  // the sum of squared deviations from the mean

  // Welford's update.
  void add(double x) {
    ++count;
    const double delta = x - mean;
    mean += delta / static_cast<double>(count);
    squares += delta * (x - mean);
  }
  // Does what adding the values of `other` would do (Chan, Golub, LeVeque 1979).
  void add(const DenseStatistics& other);
  // 1 for a constant column: it becomes 0 everywhere.
  [[nodiscard]] double deviation() const;
};

// Mean and deviation with which numbers are standardized.
struct DenseScale {
  double mean = 0, deviation = 1;
};

// Returns what a number, its logarithm taken already, becomes in files; NaN is missing.
inline float dense_feature(double x, bool standardize, const DenseScale& scale) {
  if (std::isnan(x)) return 0.0f;
  return static_cast<float>(standardize ? (x - scale.mean) / scale.deviation : x);
}

// Returns the statistics of the first `rows` values of `column`; NaN is missing. Blocks of 2^16
// rows are summed each for itself, by all threads, and merged in their order.
DenseStatistics dense_statistics(const ByteSource& column, int64_t rows, ThreadPool& pool);

}  // namespace hlite::prep
