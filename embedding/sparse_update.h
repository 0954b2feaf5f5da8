// Backward and optimizer step of embedding tables, on the CPU or a GPU.
//
// The gradient of a table row is the sum of dout[b, s, :] over the lookups of the row, sample after
// sample; with the mean, each is divided by the number of keys that the sample has in the slot.
// Lookups are sorted by row with a stable radix sort; those of one row form a segment, whose rows
// of dout are summed and applied once through update_rules.h. A segment has the lookups of all
// slots that share the row's table, by sample, then slot. Every sum has one order, whatever the
// number of threads.
//
//   CPU     a list of (key, output row) for each table; a segment belongs to one task
//   GPU     one list of (row, output row) for all slots, in tiles of a fixed length, which lanes of
//           a warp walk through: what lies within one tile is summed and applied there and then;
//           sums of what crosses the edge of a tile are a shorter list of the same kind, walked
//           through in the same way by whole blocks, until one tile is left. So a row that every
//           sample looks up keeps as many warps busy as any others
//   atomic  (GPU, SGD) every lookup adds -rate * gradient to its row with float atomics; no sort,
//           and the last bits vary from run to run
#pragma once

#include <cstdint>

#include "embedding/sparse_update_args.h"
#include "hugectr_lite/core/exec_memory.h"

namespace hlite::embedding {

struct SparseUpdateOptions {
  optimizer::UpdateRule rule = {};
  //   kLocal   rows that occur in keys change, others (and their states) stay as they are
  //   kGlobal  all rows take the step, untouched ones with gradient 0
  optimizer::UpdateType type = optimizer::UpdateType::kLocal;
  bool atomic = false;  // on a GPU; the CPU sorts all the same
  int64_t max_batch = 0;
  int threads = 1;  // of the CPU, at most
};

class SparseUpdate {
 public:
  // Takes everything that steps need for batches up to max_batch. The arrays of `slots` must
  // outlive this. Throws Error for LazyGlobal, for atomic with another rule than SGD, and for
  // batches of 2^32 keys or output rows.
  SparseUpdate(const Exec& exec, const SlotsRef& slots, const SparseUpdateOptions& how);

  // The bytes that the constructor takes, which the arrays of `slots` have no part in; an estimate
  // for a GPU that is not there. Throws likewise.
  [[nodiscard]] static int64_t workspace_bytes(const Exec& exec, const SlotsRef& slots,
                                               const SparseUpdateOptions& how);

  // One step is two calls: sort(), which needs no gradients and may overlap the steps that compute
  // them, then update(), after it. On a GPU they are asynchronous on exec.stream and can be
  // captured. The learning rate, the step (from 1), its scalars, which sort() writes, and the scale
  // of gradients lie in memory of the device. Keys beyond their table count as absent. Batches may
  // be partial (0 included). What sort() is given stays as it is until update() has run. With
  // atomic it sorts nothing, and scalars may be null. `lines`, on a GPU: where update() finds the
  // rows, once they are sorted.
  void sort(const Exec& exec, Matrix<const uint32_t> keys /*[B,columns]*/, const float* lr,
            const int64_t* step, optimizer::StepScalars* scalars, const LineOfRow& lines = {});
  // T: float, bf16, and on a GPU fp16; sums in float.
  template <typename T>
  void update(const Exec& exec, View<const T, 3> dout /*[B,S,V]*/,
              const UpdatedRows& rows /*[total_rows,V], or lines*/,
              const optimizer::GradientScale& gradient_scale = {});

 private:
  SlotsRef slots_;
  optimizer::UpdateRule rule_;
  SparseUpdateShape shape_;
  ExecMemory workspace_;
  SparseSortArgs sorted_;  // of the last sort(), and the buffer that it returned
  int buffer_ = 0;
};

}  // namespace hlite::embedding
