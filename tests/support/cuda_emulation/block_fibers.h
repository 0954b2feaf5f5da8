// Runs the threads of an emulated CUDA block as fibers of one operating system thread.
//
// A fiber runs until it has to wait for others (block barrier, warp operation) or ends; then the
// next one runs. When none can go on, threads that wait for a complete group are released. If there
// are none, threads of one block wait at different places: the error names block, threads and
// lines.
//
// The blocks of a cluster run together, all others one after the other. Static shared memory, a
// static variable, is no block's own there: the check for races says so.
//
// This checks a kernel's logic: indices, barriers, exchanges, and (with AddressSanitizer) every
// access, and that no two threads touch a byte unordered (race_check.h). It says nothing of speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <source_location>
#include <stdexcept>

#include "hugectr_lite/core/thread_pool.h"

namespace hlite::emulation {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxClusterBlocks = 8;  // that a kernel gets without asking

class EmulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A triple of unsigned numbers: sizes and indices.
struct Triple {
  unsigned x = 0, y = 0, z = 0;
};

// In which order threads get to run between two waits, and blocks one after the other. A kernel that lacks a barrier usually gives
// other results in another order.
enum class Order { kForward, kReverse, kShuffled };
void set_order(Order order, uint64_t seed = 0);

// The indices of the running thread; the scheduler sets them.
struct Place {
  const char* kernel = "";
  Triple thread, block, block_dim, grid_dim;
  // Dynamic shared memory, aligned to 128 bytes, filled with 0xFF (NaN) before each block.
  std::byte* shared = nullptr;
  size_t shared_bytes = 0;  // of each block
  // The block's number in its cluster, and the shared memory of the blocks that run together.
  unsigned cluster_rank = 0, cluster_blocks = 1;
  std::byte* shared_of[kMaxClusterBlocks] = {};
};
extern Place here;

// Calls body() once for every thread of every block. `kernel` names it in errors. One grid at a
// time in the whole process, since static shared memory is a static variable. Throws
// EmulationError, or what body threw. `cluster`: so many blocks, neighbours in x, of which the grid
// has a multiple, run together.
void run_grid(const char* kernel, Triple grid, Triple block, size_t shared_bytes,
              FunctionRef<void()> body, unsigned cluster = 1);

// ---- Called by the running thread ----

void block_barrier(std::source_location site);
// Waits for all threads of the cluster's blocks.
void cluster_barrier(std::source_location site);
// Where another block of the cluster has what lies in this block's dynamic shared memory at `mine`.
std::byte* in_block(const void* mine, unsigned rank);
// Waits for the warp's lanes in `mask`.
void warp_barrier(unsigned mask, std::source_location site);

struct Exchange {
  uint64_t value = 0;  // what the source lane brought
  unsigned votes = 0;  // lanes whose predicate holds
  unsigned lanes = 0;  // lanes that took part
};
// Waits for all lanes of `mask` that have not ended. `what` names the operation.
Exchange exchange(const char* what, unsigned mask, uint64_t value, unsigned source_lane,
                  bool predicate, std::source_location site);

// Waits for all 32 lanes of the warp: all[l * bytes ...] is what lane l has at `mine`.
void gather(const char* what, const void* mine, void* all, size_t bytes, std::source_location site);

// Returns true while a thread of a grid runs; end_fiber() then ends its grid with this error, from
// anywhere below it, a signal handler included.
bool in_fiber();
[[noreturn]] void end_fiber(std::exception_ptr&& error);

unsigned lane();
// Index within the block, as warps are cut.
unsigned linear_thread();

// Copies that a thread starts and later waits for. Nothing is there before it has waited: a thread
// that reads too early finds the old values. But with Order::kReverse all is there at once, so that
// who copies too early overwrites what others still read. A thread that ends without waiting is an
// error.
void copy_async(void* to, const void* from, size_t bytes);
// Makes a group of the copies started since the last call.
void commit_copies();
// Waits for all groups but the last `pending` ones.
void wait_for_copies(size_t pending);

}  // namespace hlite::emulation
