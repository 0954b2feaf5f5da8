// The sparse update on device memory: launchers of the kernels in sparse_update.cu. What they do is
// said in gpu_sparse_update.h.
#pragma once

#include "embedding/sparse_update_args.h"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::embedding::gpu {

// Bytes of device memory for batches up to shape.max_batch. Throws CudaError where 32-bit numbers
// do not reach: batches of 2^31 lookups, 2^32 keys or 2^32 output rows.
size_t sparse_update_workspace(const SparseUpdateShape& shape);

// Returns which of the workspace's buffers holds the sorted list; that depends on the shape and the
// batch only. Does nothing where shape.atomic.
int sparse_sort(cudaStream_t stream, const SparseSortArgs& args);

// T: float, bf16 or fp16.
template <typename T>
void sparse_update(cudaStream_t stream, const SparseUpdateArgs<T>& args);

}  // namespace hlite::embedding::gpu
