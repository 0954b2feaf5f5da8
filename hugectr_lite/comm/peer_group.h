// The part of a communicator of GPUs that shares a process: ranks that read and write each other's
// memory, and meet. A meeting is made of events, which the device's own scheduler knows of, so that
// any number of ranks may share a GPU; in a capture, where no event of another one may be waited
// for, of a kernel that signals and waits. Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/peer_kernels.h"
#include "hugectr_lite/core/device_memory.h"

namespace hlite::comm {

inline size_t index_of(int rank) { return static_cast<size_t>(rank); }

class PeerGroup {
 public:
  // State that all communicators of a process's ranks share.
  struct World {
    explicit World(const cuda::Backend& table) : stop(table) {}
    void open_waits() const { std::atomic_ref(*stop.get()).store(1); }
    PinnedValue<uint32_t> stop;  // the word that ends waits of kernels
    std::atomic<int> left = 0;   // ranks that have come to leave()
    // A rank holds it shared while it tries the links, and alone to set `failed` before it frees
    // memory that its peers might write.
    std::shared_mutex links;
    bool failed = false;
  };

  // Collective over `host`, all of the communicator's ranks; `places`: of each, by which the ranks
  // of a process are in their order. `world`: of the communicator that this one is made from.
  PeerGroup(Communicator& host, std::vector<kernels::RankPlace> places, const cuda::Backend& table,
            int device, std::shared_ptr<World> world);
  // After leave(): all work of this communicator must have ended, on all ranks of the process.
  ~PeerGroup();
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  [[nodiscard]] const std::vector<kernels::RankPlace>& places() const { return places_; }
  [[nodiscard]] kernels::RankPlace place(int rank) const {
    return places_[static_cast<size_t>(rank)];
  }
  [[nodiscard]] kernels::RankPlace own() const { return place(rank_); }
  [[nodiscard]] bool here(int rank) const { return place(rank).process == own().process; }
  [[nodiscard]] int size() const { return size_; }  // ranks of this process
  [[nodiscard]] int processes() const { return processes_; }
  [[nodiscard]] const std::shared_ptr<World>& world() const { return world_; }
  // Returns true if any two ranks of any process share a GPU.
  [[nodiscard]] bool shares_devices() const { return shares_devices_; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }  // of this process

  // This process's ranks of a list of one place for each rank.
  [[nodiscard]] kernels::Peers peers(const std::vector<const void*>& at) const;
  // Holds the stream back until all that was put on the ranks' streams before is done.
  void rendezvous(const Exec& exec);
  // Counts this rank as gone, and waits until the others are; for at most a minute, because a rank
  // may have died.
  void leave() noexcept;

 private:
  void introduce(Communicator& host);
  void try_links();
  void rendezvous_by_events(const Exec& exec);
  void destroy_events() noexcept;

  const std::vector<kernels::RankPlace> places_;
  const int rank_;
  const cuda::Backend& table_;
  const int device_;
  int size_ = 0, processes_ = 0;
  std::unique_ptr<Communicator> apart_;  // of this process's hosts, where there are others
  Communicator& hosts_;
  std::shared_ptr<World> world_;
  DeviceMemory words_memory_;  // kPeerWords of signals, then a word of each peer to try links with
  kernels::Peers words_;
  std::vector<int> devices_;
  bool shares_devices_ = false;
  // Two of each rank, used in turn: a rank records one again when all have met since its last use.
  std::array<void*, 2> own_events_{};
  std::vector<std::array<void*, 2>> events_;  // [size()]
  size_t turn_ = 0;
};

}  // namespace hlite::comm
