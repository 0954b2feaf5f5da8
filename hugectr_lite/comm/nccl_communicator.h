// The ranks of several processes, joined by NCCL: one communicator a GPU, because two with work on
// a GPU at the same time may keep each other from running. It moves bytes between any two ranks, on
// the stream that it is given; sums are this project's own, but for all_reduce().
//
// NCCL is non-blocking here: a call is polled until it ends, up to a limit, so a waiting rank
// learns of other ranks' failures.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/nccl_calls.h"

namespace hlite::comm {

// The first NCCL whose calls between nodes may stand in a graph: with earlier ones such graphs hang
// now and then.
inline constexpr int kNcclForGraphs = 23007;
// "2.30.7".
std::string nccl_version_text(int version);

class NcclCommunicator {
 public:
  // Collective over `host`, whose ranks' numbers it takes; on the current device. `check_others`
  // throws when another rank has failed. Throws DeviceError.
  NcclCommunicator(Communicator& host, const cuda::Backend& table,
                   std::function<void()> check_others);
  // REQUIRES that no graph holds its work. After revoke() without others, else collective.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int version() const { return version_; }
  // Each message has its other half on the rank it names. Those of no bytes are left out.
  void exchange(const Exec& exec, std::span<const kernels::NcclMessage> messages);
  // Does what Communicator::all_reduce() does, by NCCL's sums, whose order is its own.
  void all_reduce(const Exec& exec, std::span<float> words, size_t pairs);
  // Throws DeviceError that says what has gone wrong since.
  void check();
  // Lets all work end, and refuses more. From any thread.
  void revoke() noexcept;

 private:
  void finish(const char* what);
  void abort() noexcept;
  void refuse_revoked();
  [[nodiscard]] Exec exec() const { return {.device = Device::kCuda, .cuda = &table_}; }

  const cuda::Backend& table_;
  const std::function<void()> check_others_;
  const int rank_, size_;
  int version_ = 0;
  void* comm_ = nullptr;
  std::atomic<bool> revoked_ = false;
};

}  // namespace hlite::comm
