// Column sums on the CPU of a matrix whose elements are made on the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"

namespace hlite::ops {

// out[columns] = the sum over all rows of what add_row(row, sums) adds to sums[columns]; it is
// called once a row, and may write elsewhere what belongs to that row. Sums over fixed blocks of
// rows, in row order, then over the blocks in double: the bits depend on the shape only.
template <typename AddRow>
void sum_columns(ThreadPool& threads, int64_t rows, int64_t columns, float* out, AddRow&& add_row) {
  constexpr int64_t kBlock = 64;     // rows
  constexpr int64_t kColumns = 128;  // of a task of the second pass; their sums live in L1
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  thread_local std::vector<float> workspace;  // grown once
  const auto size = static_cast<size_t>(blocks * columns);
  if (workspace.size() < size) workspace.resize(size);
  float* const partial = workspace.data();
  threads.run(blocks, [&](int64_t block, int) {
    float* const sums = partial + block * columns;
    std::fill_n(sums, columns, 0.0f);
    const int64_t end = std::min(rows, (block + 1) * kBlock);
    for (int64_t row = block * kBlock; row < end; ++row) add_row(row, sums);
  });
  threads.run((columns + kColumns - 1) / kColumns, [&](int64_t task, int) {
    const int64_t begin = task * kColumns, n = std::min(kColumns, columns - begin);
    double sums[kColumns] = {};
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t j = 0; j < n; ++j)
        sums[j] += static_cast<double>(partial[block * columns + begin + j]);
    for (int64_t j = 0; j < n; ++j) out[begin + j] = static_cast<float>(sums[j]);
  });
}

}  // namespace hlite::ops
