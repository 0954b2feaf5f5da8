// Collectives among the ranks of a run, as operations on an Exec: they work on memory of its device
// and in the order of its stream. On the CPU they are done when they return.
//
// What is computed is the same, bit for bit, whatever ranks are (threads, processes): sums are
// taken in the order of ranks, on every rank; a hierarchical all-reduce takes them in the order of
// the node's ranks, then of nodes.
//
// What is summed are words of 32 bits: the first `pairs` of them hold two bf16 each, the others one
// float. Sums are taken in float; those of bf16 are rounded, to nearest, ties to even, where they
// go on to other ranks, the same on all.
//
// Every call is collective: all ranks of the communicator make the same calls in the same order,
// one call at a time, with the same sizes. Two exchanges at once (lanes that overlap) need two
// communicators. A rank that fails calls abort(); every other rank then gets a CommError with that
// reason out of the call it is in, or makes next, instead of waiting for ever.
//
// Once warm, a call allocates nothing (scratch memory only grows).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hugectr_lite/comm/topology.h"
#include "hugectr_lite/comm/traffic_totals.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec.h"

namespace hlite::comm {

// A rank failed or the ranks disagree; exit code 4.
class CommError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

enum class AllReduce {
  kTwoPhase,  // each rank sums a slice, then all gather the slices: 2 (n-1)/n of the data sent
  kOneShot,   // each rank reads all others' data and sums it all: (n-1) times the data, one step
  // Two-phase; among GPUs that were joined for it the sum of NCCL, in an order of its own.
  kUnordered,
};

// The way between nodes.
enum class Route {
  kFlat,          // every rank to every rank
  kHierarchical,  // inside the node, then along rails: as many ranks on every node
};

// The blocks of an all-to-all-v: at most `capacity` bytes for each rank, one block after another.
// The sizes lie in memory of the same device as the blocks: kernels may write and read them, and no
// host looks at them.
struct Blocks {
  const std::byte* send = nullptr;      // [ranks][capacity]
  const int64_t* send_bytes = nullptr;  // [ranks] what of each block is sent
  std::byte* receive = nullptr;         // [ranks][capacity]
  int64_t* received_bytes = nullptr;    // [ranks] written
  int64_t capacity = 0;                 // bytes; the same on all ranks
  // That every rank is done with what lay in `receive` and `received_bytes` is known already, by an
  // exchange since: then GPUs need not meet for it.
  bool free = false;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  // The topology of the ranks of this communicator.
  [[nodiscard]] virtual const Topology& topology() const = 0;
  [[nodiscard]] int size() const { return topology().ranks(); }

  // Returns when every rank has called it.
  virtual void barrier() = 0;
  // A communicator of the ranks that gave the same colour (>= 0), in the order of their ranks.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;
  // A communicator of the same ranks whose all_reduce() and all_to_all_v() go by `route`. Throws
  // CommError for kHierarchical when nodes have different numbers of ranks.
  virtual std::unique_ptr<Communicator> copy(Route route) = 0;
  // Ends the call that any rank is in, and every later one, on this communicator and on all that
  // were made from the same world. The first reason counts. May be called from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Returns true if a rank of this world has aborted, as far as this process knows. Never waits.
  [[nodiscard]] virtual bool aborted() const = 0;

  // Bytes of rank `root` -> bytes of all.
  virtual void broadcast(const Exec& exec, Bytes bytes, int root) = 0;
  // all[q * mine.size() ...) of rank `root` <- mine of rank q. `all` is empty on the others.
  virtual void gather(const Exec& exec, ConstBytes mine, Bytes all, int root) = 0;
  // Slice q of `all` <- mine of rank q, on all ranks. `all` is cut into whole units (slice_of());
  // where it is a multiple of unit and ranks, all slices are equal.
  virtual void all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit = 1) = 0;
  // Block q of receive, received_bytes[q] <- what block rank() of rank q sends. Throws CommError
  // on all ranks when that is larger than this rank's capacity.
  virtual void all_to_all_v(const Exec& exec, const Blocks& blocks) = 0;
  // mine <- the sum over ranks of slice rank() of `all` (slice_of()). The two must not overlap.
  // `pairs`: of the words of `all`.
  virtual void reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                              size_t pairs = 0) = 0;
  // values[i] <- sum over ranks. On one route all ways give the same bits, but for NCCL's.
  virtual void all_reduce(const Exec& exec, std::span<float> values,
                          AllReduce algo = AllReduce::kTwoPhase, size_t pairs = 0) = 0;

  // Bytes that this rank has sent and received by this communicator. What stays with the rank
  // itself does not count.
  [[nodiscard]] virtual TrafficTotals traffic() const = 0;
};

// The [begin, end) of n items that belong to part `part` of `parts`: sizes differ by at most one.
struct Slice {
  size_t begin, end;
  [[nodiscard]] size_t size() const { return end - begin; }
};
inline Slice slice_of(size_t n, int part, int parts) {
  const auto p = static_cast<size_t>(part), count = static_cast<size_t>(parts);
  return {n * p / count, n * (p + 1) / count};
}
// Counts the words of a slice that are among the first `pairs` words of all.
inline size_t pairs_in(const Slice& slice, size_t pairs) {
  return std::clamp(pairs, slice.begin, slice.end) - slice.begin;
}

}  // namespace hlite::comm
