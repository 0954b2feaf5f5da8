#include "hugectr_lite/preparation/csv/csv_statistics.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace hlite::prep {

void DenseStatistics::add(const DenseStatistics& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const auto a = static_cast<double>(count), b = static_cast<double>(other.count);
  const double delta = other.mean - mean;
  mean += delta * (b / (a + b));
  squares += other.squares + delta * delta * (a * b / (a + b));
  count += other.count;
}

double DenseStatistics::deviation() const {
  const double variance = count > 0 ? squares / static_cast<double>(count) : 0.0;
  return variance > 0 ? std::sqrt(variance) : 1.0;
}

DenseStatistics dense_statistics(const ByteSource& column, int64_t rows, ThreadPool& pool) {
  constexpr int64_t kBlockRows = 1 << 16;
  std::vector<DenseStatistics> blocks(static_cast<size_t>((rows + kBlockRows - 1) / kBlockRows));
  pool.run(static_cast<int64_t>(blocks.size()), [&](int64_t block, int) {
    const int64_t first = block * kBlockRows, count = std::min(kBlockRows, rows - first);
    std::vector<double> values(static_cast<size_t>(count));
    column.read(first * static_cast<int64_t>(sizeof(double)),
                std::as_writable_bytes(std::span(values)));
    DenseStatistics sum;
    for (const double x : values)
      if (!std::isnan(x)) sum.add(x);
    blocks[static_cast<size_t>(block)] = sum;
  });
  DenseStatistics all;
  for (const DenseStatistics& block : blocks) all.add(block);
  return all;
}

}  // namespace hlite::prep
