// Launchers of kernels that race, and of their likes that do not: a block of 64 threads or two.
#pragma once

#include "hugectr_lite/core/launch.cuh"

namespace hlite::test {

enum class Barrier { kNot, kWarp, kBlock, kShuffle };

// out[i] = in of the thread `ahead` further in the block, by way of shared memory and a meeting.
void pass_on(int ahead, Barrier barrier, const int* in, int* out);
// The same through memory of the device, which blocks share.
void pass_on_globally(int blocks, int ahead, Barrier barrier, int* at, int* out);
// Two tiles in turn, through the same shared memory; `meet` is between reading one and writing the
// next.
void reuse_tile(Barrier barrier, const int* in, int* out);
// out[i] = in of the thread as far in the block `ahead` further in the cluster of four, by way of that
// block's shared memory, which this one reads or, the other way round, writes. One meeting of the
// cluster may be missing, or be of the block alone.
enum class Unmet { kNone, kAtStart, kBetween, kAtEnd, kBlockOnly };
void pass_on_in_cluster(int ahead, bool writes, Unmet unmet, const int* in, int* out);
// Shared memory fetched by asynchronous copies, of which each thread waits for its own.
void fetch_and_pass_on(Barrier barrier, const int* in, int* out);

// All threads of some blocks add 1 to *count, plainly or by an atomic.
void count_threads(int blocks, bool atomic, int* count);
// All threads of a block look at *flag, plainly or as volatile, before one sets it by an atomic.
void look_and_set(bool is_volatile, int* flag, int* seen);
// Neighbouring threads write neighbouring bytes, or each the byte before its own as well.
void write_bytes(bool before, char* to);

// Blocks write `parts` [blocks * 64], and the last one that counts itself reads those of all. What
// is missing, if anything: a fence or the block's barrier before or after counting, or all but the
// number that is written late.
enum class Missing { kNothing, kBarrierBefore, kFenceBefore, kFenceAfter, kBarrierAfter, kEarly };
void hand_to_last_block(int blocks, Missing missing, int* parts, unsigned* count, int* out);
// The same of one number a block, in its first thread.
void hand_to_last_thread(int blocks, Missing missing, int* parts, unsigned* count, int* out);

}  // namespace hlite::test
