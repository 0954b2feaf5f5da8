// Which columns of a batch's keys an embedding layer reads, where it does not read them as they lie
// there: of several sparse inputs, or of a history position by position.
#pragma once

#include <cstdint>
#include <vector>

#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"

namespace hlite::embedding {

// selected[b, i] = keys[b, columns[i]]. `columns` lie where the op runs.
void select_columns(const Exec& exec, Matrix<const uint32_t> keys, Vector<const int32_t> columns,
                    Matrix<uint32_t> selected);

// lengths[b] = the keys, other than kNoKey, in columns [first, first + count) of sample b.
void count_keys(const Exec& exec, Matrix<const uint32_t> keys, int64_t first, int64_t count,
                Vector<float> lengths);

class KeyColumns {
 public:
  // `columns`: empty if the layer reads the batch's keys as they are. `of`: all columns of a batch.
  KeyColumns(std::vector<int32_t> columns, int64_t of) : columns_(std::move(columns)), of_(of) {}

  [[nodiscard]] bool selects() const { return !columns_.empty(); }
  [[nodiscard]] int64_t batch_columns() const { return of_; }
  // Allocates. On a GPU waits for exec.stream.
  void prepare(const Exec& exec);
  // `keys` [B, batch_columns()] in memory that exec reads, `selected` [B, columns]. REQUIRES
  // prepare() with a like `exec`, selects().
  void select(const Exec& exec, const uint32_t* keys, Matrix<uint32_t> selected) const;

 private:
  std::vector<int32_t> columns_;
  int64_t of_ = 0;
  ExecMemory memory_;
};

namespace kernels {
inline const KernelOf<decltype(embedding::select_columns)> select_columns{"select_columns"};
inline const KernelOf<decltype(embedding::count_keys)> count_keys{"count_keys"};
}  // namespace kernels

}  // namespace hlite::embedding
