// Backward and optimizer step of one-hot embedding tables in one pass, deterministic.
//
// The gradient of a table row is the sum of dout[b, s, :] over the samples b that looked it up, in
// sample order. Per slot, (key, sample) pairs are sorted by key with a stable radix sort; equal
// keys form a segment, whose rows of dout are summed and applied once through update_rules.h. A
// segment belongs to one task whatever the number of threads, so the bits do not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/table_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

class SparseUpdate {
 public:
  // Allocates everything that update() needs for batches up to max_batch on up to `threads`
  // threads.
  SparseUpdate(TableLayout layout, int64_t max_batch, int threads);

  // One step of `rule` at learning rate lr; `step` counts from 1.
  //   kLocal   rows that occur in keys change, others (and their states) stay as they are
  //   kGlobal  all rows take the step, untouched ones with gradient 0
  // kLazyGlobal is refused (Error). States that the rule does not keep may be empty, else they have
  // the shape of `table`. Batches may be partial (0 included). Runs on the CPU.
  void update(const Exec& exec, const optimizer::UpdateRule& rule,
              optimizer::UpdateType update_type, float lr, int64_t step,
              Matrix<const uint32_t> keys /*[B,S]*/, View<const float, 3> dout /*[B,S,V]*/,
              Matrix<float> table /*[total_rows,V]*/, Matrix<float> state0, Matrix<float> state1);

 private:
  TableLayout layout_;
  int64_t max_batch_;
  int threads_;
  Tensor<uint64_t, 2> pairs_;            // [S, max_batch] sorted
  Tensor<uint64_t, 2> scratch_;          // [threads, max_batch]
  Tensor<uint32_t, 2> counts_;           // [threads, kSortCounts]
  Tensor<float, 2> gradient_;            // [threads, V in whole cache lines] the sum of a segment
  int64_t sweep_rows_;                   // rows a task of kGlobal takes of a table
  std::vector<int64_t> sweep_tasks_{0};  // [S + 1] tasks of the slots before
};

}  // namespace hlite::embedding
