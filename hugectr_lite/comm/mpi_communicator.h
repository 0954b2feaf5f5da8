// Ranks as threads of processes under mpirun: a process for each node of the topology. Ranks of one
// process read each other's memory, others exchange messages. Compiled into libhlite_mpi, which
// programs load when they find themselves under mpirun (mpi_plugin.h): nothing else includes
// <mpi.h> or links MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <vector>

#include "hugectr_lite/comm/host_communicator.h"
#include "hugectr_lite/comm/thread_group.h"
#include "hugectr_lite/comm/wait_limit.h"

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
  // Ends all processes with a message of one of them unless all give the same text (text_of()).
  void require_same(const std::string& identity) const;
  // Communicators are distinguished by a number in their messages' tags: the first one that no
  // communicator of this process has.
  std::atomic<int> next_id{1};

 private:
  MPI_Comm messages_ = MPI_COMM_NULL;
  int index_ = 0, processes_ = 1;
};

class MpiCommunicator final : public HostCommunicator {
 public:
  struct Member {
    int process, thread;  // thread: number of the rank within its process
    int run_rank;         // its number in the whole run
  };
  // Says where the topology's ranks are, and which of them this is.
  struct Place {
    Topology topology;
    std::vector<Member> members;  // [ranks]
    int rank = 0;
  };
  // `local`: the group of the members in this process, in their order.
  MpiCommunicator(std::shared_ptr<MpiProcess> process, Place place, int id,
                  std::shared_ptr<ThreadGroup> local);

  void barrier() override;
  void visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
             Consume consume) override;
  std::unique_ptr<HostCommunicator> part(int colour) override;
  // Prints the reason and ends all processes with exit code 4 (kExitDevice). Does not return.
  void abort(const std::string& reason) noexcept override;
  [[nodiscard]] bool aborted() const override { return local_->state().aborted.load(); }

 private:
  [[nodiscard]] bool here(size_t q) const { return members_[q].process == process_->index(); }
  [[nodiscard]] const Member& self() const { return members_[static_cast<size_t>(rank())]; }
  [[nodiscard]] int local_rank() const { return local_place_[static_cast<size_t>(rank())]; }
  [[nodiscard]] int tag(const Member& from, const Member& to) const;
  void receive(size_t from, Bytes buffer);
  void send(size_t to, ConstBytes bytes);
  void start_messages(std::span<const ConstBytes> send, std::span<const Bytes> buffers);
  [[noreturn]] void give_up(const Wait& wait);
  void finish_messages(std::span<const Bytes> buffers);
  void read_all(std::span<const ConstBytes> send, std::span<const Bytes> buffers, Consume consume);
  [[nodiscard]] bool in_scratch(size_t q, std::span<const Bytes> buffers) const {
    return !here(q) && buffers[q].data() == nullptr;
  }

  const std::shared_ptr<MpiProcess> process_;
  const std::vector<Member> members_;
  const int id_;
  const std::shared_ptr<ThreadGroup> local_;
  std::vector<int> local_place_;  // [size] in local_, -1: in another process
  std::vector<size_t> leaders_;   // the first member of each process, in order
  std::vector<std::byte> scratch_;
  std::vector<MPI_Request> requests_;  // [2 size] receives, then sends
  std::vector<MPI_Status> statuses_;
};

}  // namespace hlite::comm
