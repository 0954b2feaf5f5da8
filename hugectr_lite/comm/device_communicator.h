// Collectives among GPUs. Ranks that are threads of one process read and write each other's memory
// in place, over NVLink where there is one; several of them may share a GPU. Between processes
// bytes travel by a transport (transport.h), from and to the rank's own memory.
//
// A call agrees on sizes and addresses on the host, so all ranks have to be in it at the same time,
// and then puts on the stream of its Exec: a meeting of the process's ranks (everybody's data are
// there), the work, and a meeting (everybody has done its part); see peer_group.h. Between
// processes messages order themselves. Nothing but the agreement differs from launch to launch:
// where all ranks capture, they call in the captures, and each launches its graph as often as the
// others. Sums are taken by this project's kernels in the order of ranks, or by rails of local
// ranks and then of nodes, so the bits are those of ranks on the CPU on the same route;
// AllReduce::kOneShot is done in two phases, too, which moves less. kUnordered is the
// transport's sum where it has one and the ranks were joined for it.
//
// By rails (Route::kHierarchical, where there are several processes of as many ranks each): in an
// all-to-all-v a rank hands its local rank r what it has for the r-th rank of every node, which
// sends each node one message, of blocks at capacity with their sizes. An all-reduce sums in the
// node, exchanges slices along the rail, and hands the sums to the node.
//
// Memory that is given to a collective must be of cudaMalloc (DeviceMemory), not of a pool. Between
// processes a first call of its size takes memory and opens connections: not in a capture. An abort
// lets all waits end, so that streams run empty; their results are then invalid.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/device_ranks.h"
#include "hugectr_lite/comm/peer_group.h"
#include "hugectr_lite/comm/transport.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::comm {

class DeviceCommunicator final : public Communicator {
 public:
  // Collective. `host`: of the same ranks; its calls are left to this class. `device`: the calling
  // thread's. Throws CommError, and DeviceError when a GPU cannot reach another one's memory, or if
  // a transport is required and there is no suitable one.
  DeviceCommunicator(std::unique_ptr<Communicator> host, const cuda::Backend& table, int device,
                     const DeviceRanks& how = {});
  // Call after leave() and after all graphs: all work of this communicator must have ended, on all
  // ranks.
  ~DeviceCommunicator() override;

  [[nodiscard]] int rank() const override { return host_->rank(); }
  [[nodiscard]] const Topology& topology() const override { return host_->topology(); }
  // Synchronizes the threads of the ranks.
  void barrier() override { host_->barrier(); }
  std::unique_ptr<Communicator> split(int colour) override;
  // Throws CommError for kHierarchical in one process, where every GPU is as near as any other.
  std::unique_ptr<Communicator> copy(Route route) override;
  void abort(const std::string& reason) noexcept override;
  [[nodiscard]] bool aborted() const override { return host_->aborted(); }

  // Throws what has happened to other ranks, or on the way to them. What waits for work of several
  // ranks asks now and then.
  void check();
  // Waits for all that was put on the stream: asks check() meanwhile, and throws TimeoutError when
  // it lasts longer than the limit (wait_limit.h).
  void wait_for(const Exec& exec);
  // Before a rank frees what its peers read and signal: collective, after abort() too. Waits for
  // `stream`, without it for all of the device, and until all ranks of the process have come here;
  // for at most a minute, because a rank may have died.
  void leave(void* stream) noexcept;

  [[nodiscard]] bool several_processes() const { return peers_.processes() > 1; }
  // Returns true if calls may stand in captures. Ranks that share a GPU must not: kernels that wait
  // for each other might be queued one after the other. Nor may some transports.
  [[nodiscard]] bool may_capture() const;
  // The devices of the process's ranks.
  [[nodiscard]] const std::vector<int>& devices() const { return peers_.devices(); }
  // Describes in a line the ranks' GPUs, how they reach each other, and whether that may be
  // captured.
  [[nodiscard]] std::string describe() const;

  void broadcast(const Exec& exec, Bytes bytes, int root) override;
  void gather(const Exec& exec, ConstBytes mine, Bytes all, int root) override;
  void all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) override;
  // A size outside of [0, capacity] arrives as -1: the host does not see it.
  void all_to_all_v(const Exec& exec, const Blocks& blocks) override;
  void reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                      size_t pairs) override;
  void all_reduce(const Exec& exec, std::span<float> values, AllReduce algo, size_t pairs) override;
  // Traffic of the calls; a graph's launches do not count, and an all-to-all-v counts at its
  // capacity.
  [[nodiscard]] TrafficTotals traffic() const override { return traffic_; }

 private:
  struct Call;  // what ranks agree on
  DeviceCommunicator(std::unique_ptr<Communicator> host, const DeviceCommunicator& of, Route route);
  void place_ranks();
  void open_waits() noexcept;
  // The process's addresses [3] of a call in which all agree on `kind`, `bytes` and `detail`.
  using Addresses = std::array<const void*, 3>;
  std::array<kernels::Peers, 3> agree(const char* kind, const Addresses& mine, int64_t bytes,
                                      int64_t detail = 0);
  // Memory of this rank for what goes to other processes or comes from them.
  std::byte* stage(size_t bytes);
  // To rank `to`, or from rank `from`, of another process, in the next exchange().
  void send(int to, const void* data, size_t bytes);
  void receive(int from, void* data, size_t bytes);
  void exchange(const Exec& exec);
  [[nodiscard]] kernels::BlockMoves block_moves(int64_t capacity) const;
  void exchange_slots(const Exec& exec, const kernels::BlockMoves& moves, const std::byte* staged,
                      std::byte* came);
  kernels::Addends addends(const Exec& exec, const kernels::Peers& values,
                           std::span<const float> all);
  void all_reduce_unordered(const Exec& exec, std::span<float> values, size_t pairs);
  void all_reduce_flat(const Exec& exec, const kernels::Peers& peers, std::span<float> values,
                       size_t pairs);
  void all_reduce_by_rails(const Exec& exec, const kernels::Peers& peers, std::span<float> values,
                           size_t pairs);
  void sum_along_rail(const Exec& exec, std::span<float> slice, size_t pairs);
  void count(int peer, size_t sent, size_t received);

  const std::shared_ptr<Communicator> host_;
  const cuda::Backend& table_;
  const int device_;
  const DeviceRanks how_;
  const Route route_;
  PeerGroup peers_;
  std::shared_ptr<Transport> transport_;  // of all ranks of the run; null: not used
  std::vector<int> transport_ranks_;      // there, of this communicator's
  DeviceMemory places_;                   // kernels::RankPlace [ranks]
  // The last one counts. Graphs may know of earlier ones.
  std::vector<DeviceMemory> stages_;
  std::vector<kernels::Message> messages_;
  TrafficTotals traffic_;
};

}  // namespace hlite::comm
