// Kernels by which GPUs of one process use each other's memory, which is read and written in place,
// and by which they put together what goes to other processes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

inline constexpr int kMaxPeers = 32;  // in a process
inline constexpr int kMaxGpus = 128;  // of a run

// A place in the memory of each of a process's ranks, which count among themselves.
struct Peers {
  int rank = 0, count = 1;  // this rank; all of the process
  std::byte* at[kMaxPeers] = {};
};

// The signal counters of ranks, [kMaxPeers + 1] uint32 of each rank, zero at first: word q is the
// last signal of rank q, the last one counts this rank's meetings. As the count lies in device
// memory, a captured meeting signals a new value at each launch.
inline constexpr size_t kPeerWords = kMaxPeers + 1;

// Lets the current device reach memory of `device`. Throws where the hardware cannot.
inline const Kernel<void(int /*device*/)> reach_peer{"reach_peer"};

// The way in which GPU `from` reaches the memory of GPU `to`.
enum class PeerLink : int { kNone, kBus, kDirect };  // kDirect: with atomics, as over NVLink
inline const Kernel<PeerLink(int /*from*/, int /*to*/)> peer_link{"peer_link"};

// Returns true if work that is put on the stream becomes part of a graph.
inline const Kernel<bool()> stream_captures{"stream_captures"};
// Returns true if all work that was put on the stream is done; throws what has gone wrong on the
// device.
inline const Kernel<bool()> stream_is_idle{"stream_is_idle"};

// Signals to all ranks that the earlier work of this stream is done, and then holds the stream back
// until all have signalled as often as this one, or *stop is not 0. The only kernel that waits; it
// occupies one block.
inline const Kernel<void(Peers /*words*/, const uint32_t* /*stop*/)> peer_meet{"peer_meet"};

// Progress that a run on a GPU reports to its host.
struct Notice {
  uint64_t run = 0;               // number of this report, from 1; written last
  int32_t capacity_exceeded = 0;  // as it is then
  float stop_requests = 0;        // ranks with a stop request
};
// *notice, in page-locked memory, <- the next one; `runs` counts them in device memory, from 0.
inline const Kernel<void(uint64_t* /*runs*/, const int32_t* /*capacity_exceeded*/,
                         const float* /*stop_requests*/, Notice* /*notice*/)>
    notify_host{"notify_host"};

// Words of 32 bits, of which the first `pairs` hold two bf16 each, the others one float.
struct SummedWords {
  int64_t count = 0, pairs = 0;
};
// The addends of a sum, in this order: words in memory that this GPU reaches.
struct Addends {
  int count = 0;
  const std::byte* at[kMaxGpus] = {};
};
// Word i of every place of `to` that is not null <- the sum of those of the addends, one of which
// may lie there.
inline const Kernel<void(const Addends&, const SummedWords&, const Peers& /*to*/)> peer_sum{
    "peer_sum"};
// Bytes -> every place that is not null.
inline const Kernel<void(Peers /*to*/, const std::byte* /*from*/, int64_t /*bytes*/)> peer_copy{
    "peer_copy"};

// The place of a rank of the communicator: its process, and its number among the ranks there.
struct RankPlace {
  int32_t process = 0, local = 0;
};
// Bytes that go to rank `peer`, or that come from it.
struct Message {
  int peer = 0;
  const void* send = nullptr;  // or
  void* receive = nullptr;
  int64_t bytes = 0;
};
// A block on its way between processes: its size, then its bytes.
inline constexpr int64_t kSlotHeader = 16;
// The shape of an all-to-all-v (comm::Blocks) of `ranks` ranks. What goes to other processes is
// staged in slots: flat, slot q is for rank q, or from it; by rails, which want as many ranks on
// every process, slot p * locals + l is what local rank l has for process p, or what rank l of
// process p has for this one.
struct BlockMoves {
  const RankPlace* places = nullptr;  // [ranks], in device memory
  int rank = 0, ranks = 1;
  RankPlace own = {};
  int locals = 1;  // ranks of each process, by rails
  bool rails = false;
  int64_t capacity = 0, slot_bytes = 0;
};
// Block q of `send`, send_bytes[q], -> where its way begins: block rank of rank q's `receive` and
// its size -> word rank of rank q's `received`, on this process; else a slot of `staged`, of this
// rank, or by rails of the one with the receiver's local number. A size outside [0, capacity]
// arrives as -1, and none of its bytes.
inline const Kernel<void(const BlockMoves&, const Peers& /*receive*/, const Peers& /*received*/,
                         const Peers& /*staged*/, const std::byte* /*send*/,
                         const int64_t* /*send_bytes*/)>
    peer_blocks{"peer_blocks"};
// Slots that came from other processes -> the blocks of `receive` and their sizes.
inline const Kernel<void(const BlockMoves&, const std::byte* /*came*/, std::byte* /*receive*/,
                         int64_t* /*received*/)>
    unstage_blocks{"unstage_blocks"};

}  // namespace hlite::kernels
