// Ranks as threads of one process. A rank reads the others' memory in place; nothing is copied on
// the way.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hugectr_lite/comm/host_communicator.h"

namespace hlite::comm {

class ThreadGroup;

class ThreadCommunicator final : public HostCommunicator {
 public:
  // `group`: of the topology's ranks.
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, Topology topology, int rank);
  ~ThreadCommunicator() override;

  void barrier() override;
  void visit(std::span<const ConstBytes> send, std::span<const Bytes> room,
             Consume consume) override;
  std::unique_ptr<HostCommunicator> part(int colour) override;
  void abort(const std::string& reason) noexcept override;
  [[nodiscard]] bool aborted() const override;

 private:
  void read_all(std::span<const Bytes> room, Consume consume);

  const std::shared_ptr<ThreadGroup> group_;
};

// One communicator for each of the threads to come.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(const Topology& topology);

// Runs body(communicator) for each of `ranks`, the ranks of this process, on a thread of its own
// (the first on the calling one) and waits for all. When a body throws, all ranks are aborted with
// "rank r: <its message>", and the first exception thrown is rethrown: the first one that is no
// CommError where there is one, since these tell ranks what has become of another.
void run_ranks(std::span<const std::unique_ptr<Communicator>> ranks,
               const std::function<void(Communicator&)>& body);
// The same on make_thread_ranks(): of a topology, or of one node of so many ranks.
void run_ranks(const Topology& topology, const std::function<void(Communicator&)>& body);
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace hlite::comm
