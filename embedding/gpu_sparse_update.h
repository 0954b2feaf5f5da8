// Backward and optimizer step of embedding tables on a GPU. Formulas are those of sparse_update.h.
//
// kSorted, deterministic: (row, output row) pairs of all slots together are sorted by row with a
// stable radix sort; equal rows form a segment. The sorted pairs are cut into tiles of a fixed
// length, which lanes of a warp walk through: what lies within one tile is summed and applied there
// and then; sums of what crosses the edge of a tile are a shorter list of the same kind, walked
// through in the same way by whole blocks, until one tile is left. So a row that every sample looks
// up keeps as many warps busy as any others, and every sum has a fixed order: by sample within a
// tile, then by tile.
//
// kAtomic, SGD only: every lookup adds -rate * gradient to its row with float atomics; no sort, and
// the last bits vary from run to run.
#pragma once

#include <cstdint>

#include "embedding/device_slots.h"
#include "embedding/sparse_update_args.h"

namespace hlite::embedding {

enum class SparseUpdateMethod { kSorted, kAtomic };

class GpuSparseUpdate {
 public:
  // Takes everything that update() needs for batches up to max_batch from the device. `slots` must
  // outlive this. Throws Error for LazyGlobal, for kAtomic with another rule than SGD, and for
  // batches of 2^32 keys or output rows.
  GpuSparseUpdate(const Exec& exec, const DeviceSlots& slots, const optimizer::UpdateRule& rule,
                  optimizer::UpdateType update_type, SparseUpdateMethod method, int64_t max_batch);

  // What the bytes depend on. Throws likewise.
  [[nodiscard]] static SparseUpdateShape shape(const SlotsRef& slots,
                                               const optimizer::UpdateRule& rule,
                                               optimizer::UpdateType update_type,
                                               SparseUpdateMethod method, int64_t max_batch);
  // The bytes that the constructor takes; an estimate where no plug-in can say, for a GPU that
  // is not there.
  [[nodiscard]] static int64_t workspace_bytes(const cuda::Backend& gpu,
                                               const SparseUpdateShape& shape);
  // Of that, the bytes.
  [[nodiscard]] int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_.size()); }

  // One step is two calls, asynchronous on exec.stream, which can be captured: sort(), which needs
  // no gradients and can be done while others make them, then update(), behind it. The learning
  // rate, the step (from 1), its scalars, which sort() writes, and the scale of gradients lie in
  // device memory. Keys beyond their table count as absent (lookup_forward records them). Batches
  // may be partial (0 included). What sort() is given stays as it is until update() has run.
  // With kAtomic it sorts nothing, and scalars may be null.
  void sort(const Exec& exec, const float* lr, const int64_t* step,
            Matrix<const uint32_t> keys /*[B,columns]*/, optimizer::StepScalars* scalars);
  // T: float, bf16 or fp16; sums in float. States that the rule does not keep may be empty.
  template <typename T>
  void update(const Exec& exec, View<const T, 3> dout /*[B,S,V]*/,
              Matrix<float> table /*[total_rows,V]*/, Matrix<float> state0, Matrix<float> state1,
              const optimizer::GradientScale& gradient_scale = {});

 private:
  SlotsRef slots_;
  optimizer::UpdateRule rule_;
  SparseUpdateShape shape_;
  DeviceMemory workspace_;
  SparseSortArgs sorted_;  // of the last sort(), and the buffer that it returned
  int buffer_ = 0;
};

}  // namespace hlite::embedding
