// Transports between ranks on GPUs that share no memory, as DeviceCommunicator uses them: NCCL, and
// what has a line in device_ranks.h. One joins all ranks of a run, whatever communicators these
// make, and moves bytes between any two of them; sums are this project's own, but for all_reduce().
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/peer_kernels.h"

namespace hlite::comm {

// Of one rank. Calls are for its thread, but for revoke().
class Transport {
 public:
  // Collective over `host`, whose ranks' numbers it takes; on the current device. `check_others`
  // throws when another rank has failed: what waits asks it now and then. Throws DeviceError.
  using Join = std::unique_ptr<Transport>(Communicator& host, const cuda::Backend& table,
                                          std::function<void()> check_others);

  // REQUIRES that no graph holds its work. After revoke() without others, else collective.
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // As a line of the run shows it: "NCCL 2.30.7".
  [[nodiscard]] virtual std::string name() const = 0;
  // What would let its calls stand in graphs; empty: they may.
  [[nodiscard]] virtual std::string graphs_want() const = 0;
  // Puts all messages on the stream as one group. Each has its other half on the rank it names,
  // which makes the call at the same time, so a host may wait for that. None is of no bytes.
  virtual void exchange(const Exec& exec, std::span<const kernels::Message> messages) = 0;
  // Returns true if all_reduce() may be called, which does what Communicator's does, in any order.
  [[nodiscard]] virtual bool sums() const { return false; }
  virtual void all_reduce(const Exec& /*exec*/, std::span<float> /*words*/, size_t /*pairs*/) {
    HLITE_CHECK(sums(), "{} moves bytes alone", name());
  }
  // Throws DeviceError that says what has gone wrong since.
  virtual void check() = 0;
  // Lets all work end, and refuses more. From any thread.
  virtual void revoke() noexcept = 0;

 protected:
  Transport(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
};

}  // namespace hlite::comm
