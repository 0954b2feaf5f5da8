// What GPUs of one process do with each other's memory. Ranks are numbered as in the communicator;
// memory of a peer is read and written in place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugectr_lite/core/kernel.h"

namespace hlite::kernels {

inline constexpr int kMostPeers = 32;

// A place in each rank's memory.
struct Peers {
  int rank = 0, count = 1;  // this rank; all ranks
  std::byte* at[kMostPeers] = {};
};

// The words that ranks raise to tell each other how far they are, [kMostPeers + 1] uint32 of each
// rank, zero at first: word q is rank q's, the last one counts what this rank has told. As the
// count lies in device memory, a captured signal tells something new at each launch.
inline constexpr size_t kPeerWords = kMostPeers + 1;

// Lets the current device reach memory of `device`. Throws where the hardware cannot.
inline const Kernel<void(int /*device*/)> reach_peer{"reach_peer"};

// How GPU `from` reaches the memory of GPU `to`.
enum class PeerLink : int { kNone, kBus, kDirect };  // kDirect: with atomics, as over NVLink
inline const Kernel<PeerLink(int /*from*/, int /*to*/)> peer_link{"peer_link"};

// Whether what is put on the stream becomes part of a graph.
inline const Kernel<bool()> stream_captures{"stream_captures"};
// Whether all that was put on the stream is done; throws what has gone wrong on the device.
inline const Kernel<bool()> stream_is_idle{"stream_is_idle"};

// Tells all ranks that what was put on this stream before is done.
inline const Kernel<void(Peers /*words*/)> peer_signal{"peer_signal"};
// Holds the stream back until all ranks have told as often as this one, or *stop is not 0. The only
// kernel that waits; it occupies one block.
inline const Kernel<void(Peers /*words*/, const uint32_t* /*stop*/)> peer_wait{"peer_wait"};

// What a run on a GPU tells its host while it goes on.
struct Notice {
  uint64_t run = 0;      // how many have told, this one included; written last
  int32_t overflow = 0;  // as it is then
  float wish = 0;
};
// *notice, in page-locked memory, <- the next one; `runs` counts them in device memory, from 0.
inline const Kernel<void(uint64_t* /*runs*/, const int32_t* /*overflow*/, const float* /*wish*/,
                         Notice* /*notice*/)>
    notify_host{"notify_host"};

// Words [begin, begin + count) of 32 bits, of which the first `pairs` hold two bf16 each, the
// others one float.
struct SummedWords {
  int64_t begin = 0, count = 0, pairs = 0;
};
// out[i] <- the sum over ranks, in their order, of word begin + i of each rank's. Without `out` the
// sums go back to where they are from, on all ranks.
inline const Kernel<void(Peers /*values*/, const SummedWords&, float* /*out*/)> peer_sum{
    "peer_sum"};
// Bytes -> every place that is not null.
inline const Kernel<void(Peers /*to*/, const std::byte* /*from*/, int64_t /*bytes*/)> peer_copy{
    "peer_copy"};
// An all-to-all-v (comm::Blocks): block q of `send`, send_bytes[q], -> block rank of rank q's
// `receive`, its size -> word rank of rank q's `received`. A size outside [0, capacity] arrives as
// -1, and none of its bytes.
inline const Kernel<void(Peers /*receive*/, Peers /*received*/, const std::byte* /*send*/,
                         const int64_t* /*send_bytes*/, int64_t /*capacity*/)>
    peer_blocks{"peer_blocks"};

}  // namespace hlite::kernels
