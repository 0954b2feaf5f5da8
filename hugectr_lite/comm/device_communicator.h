// Collectives among GPUs whose ranks are threads of one process: a rank reads and writes its peers'
// memory in place, over NVLink where there is one. Several ranks may share a GPU.
//
// A call agrees on sizes and addresses on the host, so all ranks have to be in it at the same time,
// and then puts on the stream of its Exec: a meeting (everybody's data are there), the work, and a
// meeting (everybody has done its part). A meeting is made of events, which the device's own
// scheduler knows of, so that any number of ranks may share a GPU; in a capture, where no event of
// another one may be waited for, of a signal and a kernel that waits. Nothing but the agreement
// differs from launch to launch: where all ranks capture, they call in the captures, and each
// launches its graph as often as the others. Sums are taken in the order of ranks, so the bits are
// those of ranks on the CPU; AllReduce::kOneShot is done in two phases, too, which moves less.
//
// Memory that is given to a collective must be of cudaMalloc (DeviceMemory), not of a pool. An
// abort lets all waits end, so that streams run empty; what they leave behind then means nothing.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::comm {

class DeviceCommunicator final : public Communicator {
 public:
  // Collective. `host`: of the same ranks, threads of this process; its calls are left to this
  // class. `device`: the calling thread's. Throws CommError, and DeviceError when a GPU cannot
  // reach another one's memory.
  DeviceCommunicator(std::unique_ptr<Communicator> host, const cuda::Backend& table, int device);
  // After leave(): all work of this communicator must have ended, on all ranks.
  ~DeviceCommunicator() override;

  [[nodiscard]] int rank() const override { return host_->rank(); }
  [[nodiscard]] const Topology& topology() const override { return host_->topology(); }
  // Of the ranks' threads.
  void barrier() override { host_->barrier(); }
  std::unique_ptr<Communicator> split(int colour) override;
  // Throws CommError for kHierarchical: inside a process every GPU is as near as any other.
  std::unique_ptr<Communicator> copy(Route route) override;
  void abort(const std::string& reason) noexcept override;
  // Before a rank frees what its peers read and signal: collective, after abort() too. Waits for
  // `stream` to run empty, and until all ranks have come here; for at most a minute, because a rank
  // may have died.
  // Without `stream`: for all of the device.
  void leave(void* stream) noexcept;
  // Whether any two ranks share a GPU: kernels that wait for each other might then be queued one
  // behind the other, so such ranks must not capture.
  [[nodiscard]] bool shares_devices() const;
  // Of the ranks.
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }

  void broadcast(const Exec& exec, Bytes bytes, int root) override;
  void gather(const Exec& exec, ConstBytes mine, Bytes all, int root) override;
  void all_gather(const Exec& exec, ConstBytes mine, Bytes all, size_t unit) override;
  // A size outside of [0, capacity] arrives as -1: the host does not see it.
  void all_to_all_v(const Exec& exec, const Blocks& blocks) override;
  void reduce_scatter(const Exec& exec, std::span<const float> all, std::span<float> mine,
                      size_t pairs) override;
  void all_reduce(const Exec& exec, std::span<float> values, AllReduce algo, size_t pairs) override;
  // Of the calls; a graph's launches do not count, and an all-to-all-v counts at its capacity.
  [[nodiscard]] TrafficTotals traffic() const override { return traffic_; }

 private:
  struct World;
  struct Call;  // what ranks agree on
  DeviceCommunicator(std::unique_ptr<Communicator> host, const cuda::Backend& table, int device,
                     std::shared_ptr<World> world);
  void meet();
  void destroy_events() noexcept;
  // Every rank's addresses [2] of a call in which all agree on `kind`, `bytes` and `detail`.
  std::array<kernels::Peers, 2> agree(const char* kind, const void* first, const void* second,
                                      int64_t bytes, int64_t detail = 0);
  void wait_for_all(const Exec& exec);
  void wait_by_events(const Exec& exec);
  void count(int peer, size_t sent, size_t received);

  const std::unique_ptr<Communicator> host_;
  const cuda::Backend& table_;
  const int device_;
  const std::shared_ptr<World> world_;
  DeviceMemory words_memory_;
  kernels::Peers words_;
  std::vector<int> devices_;  // of the ranks
  // Two of each rank, used in turn: a rank records one again when all have met since its last use.
  std::array<void*, 2> own_events_{};
  std::vector<std::array<void*, 2>> events_;
  size_t turn_ = 0;
  TrafficTotals traffic_;
};

}  // namespace hlite::comm
