// Ranks as threads of processes under mpirun: a process for each node of the topology. Ranks of one
// process read each other's memory, others exchange messages. Compiled into libhlite_mpi, which
// programs load when they find themselves under mpirun (mpi_plugin.h): nothing else includes
// <mpi.h> or links MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"
#include "hugectr_lite/comm/thread_group.h"
#include "hugectr_lite/comm/topology.h"

namespace hlite::comm {

// This process's part in MPI, from start to end.
class MpiProcess {
 public:
  MpiProcess();
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  [[nodiscard]] MPI_Comm messages() const { return messages_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int processes() const { return processes_; }
  // Communicators are told apart by a number in their messages' tags: the first one that no
  // communicator of this process has.
  std::atomic<int> next_id{1};

 private:
  MPI_Comm messages_ = MPI_COMM_NULL;
  int index_ = 0, processes_ = 1;
};

class MpiCommunicator final : public Communicator {
 public:
  struct Member {
    int process, thread;  // thread: number of the rank within its process
  };
  // Rank `rank` of `members`; `local`: the group of those in this process, in the order of members.
  MpiCommunicator(std::shared_ptr<MpiProcess> process, std::vector<Member> members, int rank,
                  int id, std::shared_ptr<ThreadGroup> local);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(members_.size()); }
  void barrier() override;
  void visit(std::span<const ConstBytes> send, std::span<const size_t> most,
             Consume consume) override;
  std::unique_ptr<Communicator> split(int colour) override;
  // Prints the reason and ends all processes with exit code 4 (kExitDevice). Does not return.
  void abort(const std::string& reason) noexcept override;

 private:
  [[nodiscard]] bool here(size_t q) const { return members_[q].process == process_->index(); }
  [[nodiscard]] int tag(const Member& from, const Member& to) const;
  void start_messages(std::span<const ConstBytes> send, std::span<const size_t> most);
  void finish_messages(std::span<const size_t> most);
  void read_all(std::span<const ConstBytes> send, std::span<const size_t> most, Consume consume);

  const std::shared_ptr<MpiProcess> process_;
  const std::vector<Member> members_;
  const int rank_, id_;
  const std::shared_ptr<ThreadGroup> local_;
  std::vector<int> local_place_;  // [size] in local_, -1: in another process
  std::vector<int> leaders_;      // the first member of each process, in order
  std::vector<std::byte> scratch_;
  std::vector<MPI_Request> requests_;  // [2 size] receives, then sends
  std::vector<MPI_Status> statuses_;
};

}  // namespace hlite::comm
