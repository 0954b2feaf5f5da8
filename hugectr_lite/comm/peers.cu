// Direct loads and stores between GPUs of one process.
//
// Order between GPUs: in a meeting a signal is a release store at system scope after all earlier
// work of its stream, a wait an acquire load at system scope (PTX memory model); everything else is
// plain. Each pair of ranks has a word of its own, since neighbouring bytes of one word would be
// written at the same time.
#include <cuda/atomic>

#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/kernel_list.cuh"
#include "hugectr_lite/core/launch.cuh"

namespace hlite::gpu {
namespace {

using kernels::kMaxPeers;
using kernels::Peers;

constexpr int kThreads = 256;
constexpr int64_t kPackBytes = 16;

// Looks at a peer's word between two looks at the host's, each of which is a way over the bus and
// back.
constexpr unsigned kHostCheckInterval = 16;

struct alignas(kPackBytes) BytePack {
  uint32_t word[4];
};

using Word = ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_system>;

__device__ inline uint32_t* words_of(const Peers& peers, int rank) {
  return reinterpret_cast<uint32_t*>(peers.at[rank]);
}

__device__ inline int64_t grid_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t grid_threads() { return int64_t{gridDim.x} * blockDim.x; }

// Returns when the peer has come to meeting `meeting`, or the host ends all waits. Counts may wrap
// around: only differences count.
__device__ inline void await(uint32_t& signal, uint32_t meeting, const uint32_t* stop) {
  for (unsigned look = 0;; ++look) {
    const uint32_t seen = Word(signal).load(::cuda::std::memory_order_acquire);
    if (static_cast<int32_t>(seen - meeting) >= 0) return;
    if (look % kHostCheckInterval == 0 &&
        Word(*const_cast<uint32_t*>(stop)).load(::cuda::std::memory_order_relaxed) != 0)
      return;
    __nanosleep(100);
  }
}

// All of a rank's signals precede its waits. It counts the meeting when it is over: begun again, it
// would signal the same.
__global__ void __launch_bounds__(kMaxPeers) meet_kernel(Peers words, const uint32_t* stop) {
  uint32_t* const mine = words_of(words, words.rank);
  const uint32_t meeting = mine[kMaxPeers] + 1;
  const int peer = static_cast<int>(threadIdx.x);
  __threadfence_system();
  if (peer < words.count)
    Word(words_of(words, peer)[words.rank]).store(meeting, ::cuda::std::memory_order_release);
  __syncthreads();
  if (peer < words.count) await(mine[peer], meeting, stop);
  __syncthreads();
  if (peer == 0) mine[kMaxPeers] = meeting;
}

__global__ void notify_kernel(uint64_t* runs, const int32_t* capacity_exceeded,
                              const float* stop_requests, kernels::Notice* notice) {
  notice->capacity_exceeded = *capacity_exceeded;
  notice->stop_requests = *stop_requests;
  *runs += 1;
  ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_system>(notice->run)
      .store(*runs, ::cuda::std::memory_order_release);
}

// Returns the sum of word i of all addends: of its two bf16, or of its float.
__device__ inline uint32_t sum_of_word(const kernels::Addends& values, int64_t i, bool pair) {
  float low = 0, high = 0;
  for (int q = 0; q < values.count; ++q) {
    const uint32_t word = reinterpret_cast<const uint32_t*>(values.at[q])[i];
    const float x =
        pair ? to_float(bf16{static_cast<uint16_t>(word)}) : hlite::detail::float_of(word);
    const float y = pair ? to_float(bf16{static_cast<uint16_t>(word >> 16)}) : 0.0f;
    low = q == 0 ? x : low + x;
    high = q == 0 ? y : high + y;
  }
  if (!pair) return hlite::detail::bits_of(low);
  return from_float<bf16>(low).bits | uint32_t{from_float<bf16>(high).bits} << 16;
}

__global__ void __launch_bounds__(kThreads)
    sum_kernel(kernels::Addends values, kernels::SummedWords words, Peers to) {
  for (int64_t i = grid_thread(); i < words.count; i += grid_threads()) {
    const uint32_t sum = sum_of_word(values, i, i < words.pairs);
    for (int q = 0; q < to.count; ++q)
      if (to.at[q]) reinterpret_cast<uint32_t*>(to.at[q])[i] = sum;
  }
}

// By the threads of the whole grid; packs where both lie so.
__device__ inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  const bool aligned =
      (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % kPackBytes == 0;
  const int64_t packs = aligned ? bytes / kPackBytes : 0;
  for (int64_t i = grid_thread(); i < packs; i += grid_threads())
    reinterpret_cast<BytePack*>(to)[i] = reinterpret_cast<const BytePack*>(from)[i];
  for (int64_t i = packs * kPackBytes + grid_thread(); i < bytes; i += grid_threads())
    to[i] = from[i];
}

__global__ void __launch_bounds__(kThreads)
    copy_kernel(Peers to, const std::byte* from, int64_t bytes) {
  for (int k = 0; k < to.count; ++k) {
    const int q = (to.rank + k) % to.count;  // not all at the same peer
    if (to.at[q] && to.at[q] != from) copy_bytes(to.at[q], from, bytes);
  }
}

// Says where a block and its size go to, or come from.
struct BlockEnds {
  std::byte* bytes;
  int64_t* size;
};

__device__ inline BlockEnds slot_ends(std::byte* slots, int64_t slot, int64_t slot_bytes) {
  std::byte* const at = slots + slot * slot_bytes;
  return {at + kernels::kSlotHeader, reinterpret_cast<int64_t*>(at)};
}

// The size of a block, or -1 where it does not fit: because a list exceeds the capacity, or because
// nothing came, after an abort, to where it is read.
__device__ inline int64_t size_within(int64_t bytes, int64_t capacity) {
  return bytes >= 0 && bytes <= capacity ? bytes : -1;
}

__global__ void __launch_bounds__(kThreads)
    blocks_kernel(kernels::BlockMoves moves, Peers receive, Peers received, Peers staged,
                  const std::byte* send, const int64_t* send_bytes) {
  for (int k = 0; k < moves.ranks; ++k) {
    const int q = (moves.rank + k) % moves.ranks;  // not all at the same peer
    const kernels::RankPlace to = moves.places[q];
    const int64_t bytes = size_within(send_bytes[q], moves.capacity);
    BlockEnds ends{};
    if (to.process == moves.own.process)
      ends = {receive.at[to.local] + moves.rank * moves.capacity,
              reinterpret_cast<int64_t*>(received.at[to.local]) + moves.rank};
    else if (moves.rails)
      ends = slot_ends(staged.at[to.local], int64_t{to.process} * moves.locals + moves.own.local,
                       moves.slot_bytes);
    else
      ends = slot_ends(staged.at[moves.own.local], q, moves.slot_bytes);
    if (grid_thread() == 0) *ends.size = bytes;
    if (bytes > 0) copy_bytes(ends.bytes, send + q * moves.capacity, bytes);
  }
}

__global__ void __launch_bounds__(kThreads)
    unstage_kernel(kernels::BlockMoves moves, std::byte* came, std::byte* receive,
                   int64_t* received) {
  for (int q = 0; q < moves.ranks; ++q) {
    const kernels::RankPlace from = moves.places[q];
    if (from.process == moves.own.process) continue;
    const int64_t slot = moves.rails ? int64_t{from.process} * moves.locals + from.local : q;
    const BlockEnds ends = slot_ends(came, slot, moves.slot_bytes);
    const int64_t bytes = size_within(*ends.size, moves.capacity);
    if (grid_thread() == 0) received[q] = bytes;
    if (bytes > 0) copy_bytes(receive + q * moves.capacity, ends.bytes, bytes);
  }
}

LaunchShape shape_for(const char* name, int64_t items, cudaStream_t stream) {
  return {.name = name,
          .grid = grid_for(items, kThreads, 512),
          .block = dim3(kThreads),
          .stream = stream};
}

}  // namespace

void reach_peer(int device) {
  int mine = 0, can = 0;
  HLITE_CUDA(cudaGetDevice(&mine));
  if (mine == device) return;
  HLITE_CUDA(cudaDeviceCanAccessPeer(&can, mine, device));
  if (!can)
    throw CudaError("GPU " + std::to_string(mine) + " cannot reach the memory of GPU " +
                    std::to_string(device));
  const cudaError_t error = cudaDeviceEnablePeerAccess(device, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();  // by another communicator
  else
    HLITE_CUDA(error);
}

kernels::PeerLink peer_link(int from, int to) {
  int can = 1, atomics = 1;
  if (from != to) {
    HLITE_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
    HLITE_CUDA(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
  }
  if (!can) return kernels::PeerLink::kNone;
  return atomics ? kernels::PeerLink::kDirect : kernels::PeerLink::kBus;
}

bool stream_captures(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  HLITE_CUDA(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

bool stream_is_idle(cudaStream_t stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();  // no error, but not to be found by the next check
    return false;
  }
  HLITE_CUDA(error);
  return true;
}

void peer_meet(cudaStream_t stream, Peers words, const uint32_t* stop) {
  launch({.name = "peer_meet", .block = dim3(kMaxPeers), .stream = stream}, meet_kernel, words,
         stop);
}

void notify_host(cudaStream_t stream, uint64_t* runs, const int32_t* capacity_exceeded,
                 const float* stop_requests, kernels::Notice* notice) {
  launch({.name = "notify_host", .stream = stream}, notify_kernel, runs, capacity_exceeded,
         stop_requests, notice);
}

void peer_sum(cudaStream_t stream, const kernels::Addends& values,
              const kernels::SummedWords& words, const Peers& to) {
  launch(shape_for("peer_sum", words.count, stream), sum_kernel, values, words, to);
}

void peer_copy(cudaStream_t stream, Peers to, const std::byte* from, int64_t bytes) {
  const int64_t items = (bytes + kPackBytes - 1) / kPackBytes;
  launch(shape_for("peer_copy", items, stream), copy_kernel, to, from, bytes);
}

void peer_blocks(cudaStream_t stream, const kernels::BlockMoves& moves, const Peers& receive,
                 const Peers& received, const Peers& staged, const std::byte* send,
                 const int64_t* send_bytes) {
  const int64_t items = moves.capacity / kPackBytes + 1;
  launch(shape_for("peer_blocks", items, stream), blocks_kernel, moves, receive, received, staged,
         send, send_bytes);
}

void unstage_blocks(cudaStream_t stream, const kernels::BlockMoves& moves, const std::byte* came,
                    std::byte* receive, int64_t* received) {
  const int64_t items = moves.capacity / kPackBytes + 1;
  launch(shape_for("unstage_blocks", items, stream), unstage_kernel, moves,
         const_cast<std::byte*>(came), receive, received);
}

HLITE_KERNELS(peers) {
  list.add<reach_peer>(kernels::reach_peer);
  list.add<peer_link>(kernels::peer_link);
  list.add<stream_captures>(kernels::stream_captures);
  list.add<stream_is_idle>(kernels::stream_is_idle);
  list.add<peer_meet>(kernels::peer_meet);
  list.add<notify_host>(kernels::notify_host);
  list.add<peer_sum>(kernels::peer_sum);
  list.add<peer_copy>(kernels::peer_copy);
  list.add<peer_blocks>(kernels::peer_blocks);
  list.add<unstage_blocks>(kernels::unstage_blocks);
}

}  // namespace hlite::gpu
