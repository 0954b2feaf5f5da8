// Ranks as threads of one process. A rank reads the others' memory in place; nothing is copied on
// the way.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/comm/host_communicator.h"

namespace hlite::comm {

class ThreadGroup;

class ThreadCommunicator final : public HostCommunicator {
 public:
  // `group`: of the topology's ranks. `run_rank`: the rank's number in the whole run.
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, Topology topology, int rank, int run_rank);
  ~ThreadCommunicator() override;

  void barrier() override;
  void visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
             Consume consume) override;
  std::unique_ptr<HostCommunicator> part(int colour) override;
  void abort(const std::string& reason) noexcept override;
  [[nodiscard]] bool aborted() const override;

 private:
  void read_all(std::span<const Bytes> buffers, Consume consume);

  const std::shared_ptr<ThreadGroup> group_;
};

// One communicator for each of the threads to come.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(const Topology& topology);

// The reason to give to the others when `error` ends a rank.
std::string abort_reason(int rank, const std::exception& error);

// Runs body(communicator) for each of `ranks`, the ranks of this process, on a thread of its own (a
// single one on the calling thread) and waits for all. When a body throws, all ranks are aborted
// with "rank r: <its message>", and the first exception thrown is rethrown: the first
// that is not a CommError, if any, since a CommError only reports that another rank failed. After a
// TimeoutError a rank that does not end is not waited for: the process prints the message and exits
// with kExitDevice.
void run_ranks(std::span<const std::unique_ptr<Communicator>> ranks,
               const std::function<void(Communicator&)>& body);
// The same on make_thread_ranks(): of a topology, or of one node of so many ranks.
void run_ranks(const Topology& topology, const std::function<void(Communicator&)>& body);
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace hlite::comm
