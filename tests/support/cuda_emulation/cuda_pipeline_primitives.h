// Stands in for NVIDIA's header of this name: copies from global into shared memory that a thread
// starts, commits and waits for. They take place when it waits, or at once: block_fibers.h.
#pragma once

#include <cstddef>

#include "tests/support/cuda_emulation/block_fibers.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  hlite::emulation::copy_async(to, from, bytes);
}
inline void __pipeline_commit() { hlite::emulation::commit_copies(); }
inline void __pipeline_wait_prior(size_t groups) { hlite::emulation::wait_for_copies(groups); }
