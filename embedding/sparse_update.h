// Backward and optimizer step of embedding tables in one pass, deterministic.
//
// The gradient of a table row is the sum of dout[b, s, :] over the lookups of the row, sample after
// sample; with the mean, each is divided by the number of keys that the sample has in the slot. Per
// slot, (key, sample) pairs are sorted by key with a stable radix sort; equal keys form a segment,
// whose rows of dout are summed and applied once through update_rules.h. A segment belongs to one
// task whatever the number of threads, so the bits do not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/pooling.h"
#include "embedding/table_layout.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

class SparseUpdate {
 public:
  // Allocates everything that update() needs for batches up to max_batch on up to `threads`
  // threads.
  SparseUpdate(TableLayout layout, Pooling pooling, int64_t max_batch, int threads);
  // Of that, what depends on the batch.
  [[nodiscard]] static int64_t workspace_bytes(const Pooling& pooling, int64_t max_batch,
                                               int threads);

  // One step of `rule` at learning rate *lr; *step counts from 1.
  //   kLocal   rows that occur in keys change, others (and their states) stay as they are
  //   kGlobal  all rows take the step, untouched ones with gradient 0
  // kLazyGlobal is refused (Error). States that the rule does not keep may be empty, else they have
  // the shape of `table`. Batches may be partial (0 included). Runs on the CPU.
  void update(const Exec& exec, const optimizer::UpdateRule& rule,
              optimizer::UpdateType update_type, const float* lr, const int64_t* step,
              Matrix<const uint32_t> keys /*[B,columns]*/, View<const float, 3> dout /*[B,S,V]*/,
              Matrix<float> table /*[total_rows,V]*/, Matrix<float> state0, Matrix<float> state1,
              const optimizer::GradientScale& gradient_scale = {});

 private:
  // Sorts the slot's pairs; with the mean also fills its scales.
  void sort_slot(Matrix<const uint32_t> keys, int64_t s, int worker);
  [[nodiscard]] uint64_t* pairs_of(int64_t s) const {
    return pairs_.view().row(pooling_.column(s) - pooling_.column(0));
  }

  TableLayout layout_;
  Pooling pooling_;
  int64_t max_batch_;
  int threads_;
  Tensor<uint64_t, 2> pairs_;            // [columns, max_batch] sorted, a slot's from its first on
  std::vector<int64_t> pair_count_;      // [S]
  Tensor<float, 2> scale_;               // [S, max_batch] 1 / keys of the sample; empty for sums
  Tensor<uint64_t, 2> scratch_;          // [threads, max_batch * most hotness]
  Tensor<uint32_t, 2> counts_;           // [threads, kSortCounts]
  Tensor<float, 2> gradient_;            // [threads, V in whole cache lines] the sum of a segment
  std::vector<int64_t> touched_tasks_;   // [S + 1] tasks of the slots before
  int64_t sweep_rows_;                   // rows a task of kGlobal takes of a table
  std::vector<int64_t> sweep_tasks_{0};  // [S + 1] tasks of the slots before
};

}  // namespace hlite::embedding
