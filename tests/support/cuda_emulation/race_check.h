// Races between threads of a kernel: accesses to one byte by two threads, at least one a write,
// that nothing orders. They are found however threads happen to run, where $HLITE_EMULATED_RACES is
// 1, as it is in tests of kernels: these are compiled with -fsanitize=thread, whose calls for each
// access come here (access_hooks.cpp), not to a library. So not where a sanitizer is in use.
//
// __syncthreads orders the threads of a block, __syncwarp those of a warp. Shuffles, votes and
// matrix loads exchange values and order no memory. Threads of two blocks are ordered by one thread
// of each: what comes before the one's __threadfence() and then its atomic on a word is before what
// comes after the other's atomic on that word, later, and then its __threadfence(). Atomics and
// volatile accesses are no races among themselves. Shared memory is a block's own, or its cluster's,
// whose blocks cluster_sync orders: a block that touches another's shared memory must meet it before,
// since it may not have begun, and after, since it may have ended.
//
// Between kernels, streams and devices other means find what is missing (planted.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hlite::emulation {

// True if kernels are compiled so that their accesses are seen.
inline constexpr bool kSeesAccesses = HLITE_EMULATION_SEES_ACCESSES;

enum class Access { kRead, kWrite, kAtomicRead, kAtomic };

// ---- Called by the scheduler of threads ----

// Accesses of this thread of the operating system are those of a grid.
class WatchGrid {
 public:
  explicit WatchGrid(const char* kernel);
  ~WatchGrid();
  WatchGrid(const WatchGrid&) = delete;
  WatchGrid& operator=(const WatchGrid&) = delete;
};
// `first`: the number of the cluster's first block in the grid.
void watch_cluster(uint64_t first, unsigned blocks);
// Of the cluster's blocks, the one that runs now.
void watch_block(unsigned rank);
// All its threads have ended. Throws EmulationError.
void check_cluster_end();
// The thread, by its number in its block, that runs now, and the end of its stack; null: none.
void watch_thread(unsigned thread, const void* stack);
// All threads of the cluster, of the block, or of the warp, have met.
void order_cluster();
void order_block();
void order_warp(unsigned warp);

// ---- Called by the running thread ----

// Ends the grid where the access races with one before. `code`: where in the program it is.
void note_access(const void* data, size_t bytes, Access how, const void* code);
void note_fence();
// After note_access() of an atomic that reads and writes.
void note_atomic(const void* word);

}  // namespace hlite::emulation
