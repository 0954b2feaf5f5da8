// What few files use of the emulated runtime.
#pragma once

#include "tests/support/cuda_emulation/cuda_runtime.h"

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);

inline constexpr auto cudaDevAttrL2CacheSize = static_cast<cudaDeviceAttr>(38);

inline constexpr unsigned long long cudaGraphInstantiateFlagUseNodePriority = 8;

namespace hlite::emulation {
// The devices' L2 cache, to be changed by tests.
int& l2_bytes();
// Of the last call of cudaGraphInstantiate.
unsigned long long graph_flags();
// Kernels, copies and other pieces of work in its graph.
size_t graph_nodes();
// The most of them that wait for one another, in turn.
size_t graph_path();
}  // namespace hlite::emulation
