// Column sums on the CPU of a matrix whose elements are made on the way: over fixed blocks of rows,
// in row order, then over the blocks in double. Their bits depend on the shape only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::ops {

constexpr int64_t blocks_of(int64_t rows, int64_t block) { return (rows + block - 1) / block; }

// A row of sums for each block.
class BlockSums {
 public:
  // Uses memory of the calling thread, which its next ones take over.
  BlockSums(int64_t blocks, int64_t columns) : blocks_(blocks), columns_(columns) {
    thread_local std::vector<float> workspace;  // grown once
    const auto size = static_cast<size_t>(blocks * columns);
    if (workspace.size() < size) workspace.resize(size);
    sums_ = workspace.data();
  }

  // The block's sums, 0.
  [[nodiscard]] float* start(int64_t block) const {
    float* const sums = sums_ + block * columns_;
    std::fill_n(sums, columns_, 0.0f);
    return sums;
  }

  // out[j] = the sum of column j over the blocks, in their order.
  void combine(ThreadPool& threads, float* out) const {
    constexpr int64_t kColumns = 128;  // of one task; their sums live in L1
    threads.run(blocks_of(columns_, kColumns), [&](int64_t task, int) {
      const int64_t begin = task * kColumns, n = std::min(kColumns, columns_ - begin);
      double sums[kColumns] = {};
      wide([&] {
        for (int64_t block = 0; block < blocks_; ++block) {
          const float* const row = sums_ + block * columns_ + begin;
          for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<double>(row[j]);
        }
      });
      for (int64_t j = 0; j < n; ++j) out[begin + j] = static_cast<float>(sums[j]);
    });
  }

 private:
  int64_t blocks_, columns_;
  float* sums_;
};

// out[columns] = the sum over all rows of what add_row(row, sums) adds to sums[columns]; it is
// called once a row, and may write elsewhere what belongs to that row.
template <typename AddRow>
void sum_columns(ThreadPool& threads, int64_t rows, int64_t columns, float* out, AddRow&& add_row) {
  constexpr int64_t kBlock = 64;  // rows
  const int64_t blocks = blocks_of(rows, kBlock);
  const BlockSums block_sums(blocks, columns);
  threads.run(blocks, [&](int64_t block, int) {
    float* const sums = block_sums.start(block);
    const int64_t end = std::min(rows, (block + 1) * kBlock);
    wide([&] {
      for (int64_t row = block * kBlock; row < end; ++row) add_row(row, sums);
    });
  });
  block_sums.combine(threads, out);
}

}  // namespace hlite::ops
