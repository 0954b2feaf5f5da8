// The owner of each block of memory on the emulated machine, and which devices may access it.
//
// With several devices every device's blocks lie in address ranges of its own. While work of a
// device runs, the ranges that it has no access to are closed by the processor's page protection:
// a kernel that touches a peer's memory without access to it ends in an EmulationError that names
// both devices. Memory of cudaMallocAsync is never open to peers, because CUDA takes access to a
// pool from cudaMemPoolSetAccess, which nothing here calls.
#pragma once

#include <cstddef>
#include <string>

#include "hugectr_lite/core/thread_pool.h"

namespace hlite::emulation {

inline constexpr int kMaxDevices = 16;

// Returns true if work of `device` may access memory of `owner` (cudaDeviceEnablePeerAccess).
bool peer_access(int device, int owner);
void set_peer_access(int device, int owner, bool on);

// `bytes` of the current device, filled with NaN; null: out of memory. Before the block and after
// it AddressSanitizer sees every access.
void* take_range(int device, bool of_pool, size_t bytes);
// Gives back what take_range() gave; false for any other memory. Both REQUIRE StreamQueues::lock().
bool give_range(void* data, size_t bytes);

// Throws EmulationError when work of `device`, called `what`, cannot reach bytes [data, data + n).
void check_reach(int device, const char* what, const void* data, size_t n);
// Opens the memory that [data, data + n) lies in to the running work.
void open_range(const void* data, size_t n);

// Runs work of `device` with that device's view of the memory. Throws what it throws, and
// EmulationError when it touches what it may not.
void run_on_device(int device, const char* name, FunctionRef<void()> work);

// Records the value that a polling kernel has found in a word, and abandons its grid for now
// (stream_queues.h: NotYet).
void note_poll(const void* word, long long value);
[[noreturn]] void wait_for_word();

// "byte 8 of a block of 64 bytes of device 1"; defined next to the list of blocks.
std::string describe(const void* data);

}  // namespace hlite::emulation
