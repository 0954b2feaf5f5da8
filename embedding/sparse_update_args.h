// Arguments of the two halves of a sparse update, on the CPU and in kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "embedding/line_of_row.h"
#include "embedding/slots_ref.h"
#include "embedding/updated_rows.h"
#include "hugectr_lite/core/exec.h"
#include "hugectr_lite/core/kernel.h"
#include "hugectr_lite/core/view.h"
#include "hugectr_lite/optimizer/gradient_scale.h"
#include "hugectr_lite/optimizer/update_rules.h"

namespace hlite::embedding {

// The sizes that the workspace depends on.
struct SparseUpdateShape {
  int64_t max_batch = 0;
  int32_t slots = 0;
  int32_t lookups = 0;  // of a sample
  int32_t tables = 0;
  int32_t max_table_lookups = 0;  // of a sample
  int32_t parts = 0;              // SlotsRef's
  int32_t max_part_lookups = 0;   // of a sample
  int32_t width = 0;
  int64_t total_rows = 0;
  bool scales = false;  // gradients of some rows are scaled: a mean
  bool sweeps = false;  // rows without a lookup move too
  bool atomic = false;  // gradients go straight into the table
  int threads = 1;      // of the CPU, at most
};

// Arguments of SparseUpdate::sort(); everything but numbers lies in memory of the device.
struct SparseSortArgs {
  SparseUpdateShape shape;
  SlotsRef slots;
  optimizer::UpdateRule rule;
  const float* lr = nullptr;
  const int64_t* step = nullptr;
  Matrix<const uint32_t> keys;                // [B,columns]
  optimizer::StepScalars* scalars = nullptr;  // written
  LineOfRow lines = {};                       // on a GPU, of the sorted rows
  std::byte* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// Arguments of SparseUpdate::update(), with the same shapes and meaning.
template <typename T>
struct SparseUpdateArgs {
  SparseSortArgs sorted;  // what sort() was given
  int buffer = 0;         // and returned
  optimizer::GradientScale gradient_scale;
  View<const T, 3> dout;  // [B,S,V]
  UpdatedRows rows;       // [total_rows,V], or lines
};

namespace kernels {
// Bytes of device memory, which begin as 0, for batches up to shape.max_batch. An error where 32-bit numbers do not
// reach: batches of 2^31 lookups, 2^32 keys or 2^32 output rows.
inline const Kernel<size_t(const SparseUpdateShape&)> sparse_update_workspace{
    "sparse_update_workspace"};
// Which of the workspace's buffers holds the sorted list; that depends on the shape and the batch
// only. Does nothing where shape.atomic.
inline const Kernel<int(const SparseSortArgs&)> sparse_sort{"sparse_sort"};
template <typename T>
inline const Kernel<void(const SparseUpdateArgs<T>&)> sparse_update{"sparse_update"};
}  // namespace kernels

// The same on the CPU.
namespace cpu {
size_t sparse_update_workspace(const SparseUpdateShape& shape);
void sparse_sort(const Exec& exec, const SparseSortArgs& args);
template <typename T>  // float or bf16
void sparse_update(const Exec& exec, const SparseUpdateArgs<T>& args);
}  // namespace cpu

}  // namespace hlite::embedding
