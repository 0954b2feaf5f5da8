#include "hugectr_lite/comm/mpi_communicator.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "hugectr_lite/comm/mpi_plugin.h"

namespace hlite::comm {
namespace {

constexpr int kMaxThreads = 64;  // ranks of a process: tags can number so many

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  raise<CommError>("MPI: {}: {}", what, text);
}

int count_of(size_t bytes) {
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max()))
    raise<CommError>("MPI: a message of {} bytes: expected at most {}", bytes,
                     std::numeric_limits<int>::max());
  return static_cast<int>(bytes);
}

constexpr int kQuickQuestions = 200;
constexpr std::chrono::microseconds kBetweenQuestions{30};
constexpr std::chrono::milliseconds kLongWait{50};
// Processes that wait for the same rank give up one after another, so that the first one ends the
// others before they report the same. A rank that waits for one of its own process comes before.
constexpr std::chrono::milliseconds kBetweenProcesses{500};

// Returns when mpirun has taken what was printed, from the other end of a pipe: it may drop what is
// left there when it ends a job.
void wait_for_reader(int file) {
  constexpr int kMaxWaits = 60'000;
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISFIFO(status.st_mode)) return;
  int left = 0;
  for (int i = 0; i < kMaxWaits && ioctl(file, FIONREAD, &left) == 0 && left > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

[[noreturn]] void end_all(const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  std::fflush(stderr);
  wait_for_reader(STDERR_FILENO);
  MPI_Abort(MPI_COMM_WORLD, kExitDevice);
  std::_Exit(kExitDevice);
}

// Ends the process where a call of MPI that has no limit lasts longer than ranks may wait, but not
// within ten minutes: the processes of a job start one after another, and a busy machine may let
// one of them run long after the others.
class TimeLimit {
 public:
  // `what` the other processes do not come for.
  explicit TimeLimit(const char* what)
      : thread_(
            [what, this, most = std::max<std::chrono::milliseconds>(comm_time_limit(), kMinLimit)](
                const std::stop_token& done) { run(what, most, done); }) {
    // While Open MPI starts, it replaces functions of the C library in memory: the thread has made
    // all its calls of them before.
    started_.wait();
  }

 private:
  static constexpr std::chrono::minutes kMinLimit{10};

  void run(const char* what, std::chrono::milliseconds most, const std::stop_token& done) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    started_.count_down();
    never.wait_for(lock, done, most, [] { return false; });
    if (done.stop_requested()) return;
    std::fprintf(stderr, "a process has waited %g s for others %s (HLITE_COMM_TIMEOUT)\n",
                 static_cast<double>(most.count()) / 1000, what);
    std::_Exit(kExitDevice);
  }

  std::latch started_{1};
  std::jthread thread_;
};

}  // namespace

MpiProcess::MpiProcess() {
  const TimeLimit limit("to start");
  // Ranks that wait give their core to others: there may be more ranks than cores.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // Over TCP a large message would travel as one piece, and the word that starts the message of the
  // other direction would wait for it: ranks that exchange would send in turn.
  setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "131072", 0);
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "start");
  if (level < MPI_THREAD_MULTIPLE)
    raise<CommError>("this MPI allows no calls from several threads");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "world");
  check(MPI_Comm_set_errhandler(messages_, MPI_ERRORS_RETURN), "error handler");
  check(MPI_Comm_rank(messages_, &index_), "rank");
  check(MPI_Comm_size(messages_, &processes_), "size");
}

void MpiProcess::require_same(const std::string& identity) const {
  const TimeLimit limit("to start");
  uint64_t size = identity.size();
  check(MPI_Bcast(&size, sizeof size, MPI_BYTE, 0, messages_), "identity");
  std::string first = index_ == 0 ? identity : std::string(size, '\0');
  check(MPI_Bcast(first.data(), count_of(size), MPI_BYTE, 0, messages_), "identity");
  const int mine = first == identity ? processes_ : index_;
  int speaker = 0;
  check(MPI_Allreduce(&mine, &speaker, 1, MPI_INT, MPI_MIN, messages_), "identity");
  if (speaker == processes_) return;
  if (speaker == index_)
    end_all(fmt::format("process {} differs from process 0 of the same run: {}", index_,
                        difference(identity, first)));
  for (;;) pause();  // until the speaker has ended all
}

MpiProcess::~MpiProcess() {
  const TimeLimit limit("to end");
  MPI_Comm_free(&messages_);
  MPI_Finalize();
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiProcess> process, Place place, int id,
                                 std::shared_ptr<ThreadGroup> local)
    : HostCommunicator(std::move(place.topology), place.rank),
      process_(std::move(process)),
      members_(std::move(place.members)),
      id_(id),
      local_(std::move(local)),
      requests_(2 * members_.size(), MPI_REQUEST_NULL),
      statuses_(requests_.size()) {
  int local_ranks = 0;
  for (size_t q = 0; q < members_.size(); ++q) {
    local_place_.push_back(here(q) ? local_ranks++ : -1);
    const bool first = std::none_of(leaders_.begin(), leaders_.end(), [&](size_t leader) {
      return members_[leader].process == members_[q].process;
    });
    if (first) leaders_.push_back(q);
  }
  HLITE_CHECK(local_ranks == local_->size(), "{} ranks here, a group of {}", local_ranks,
              local_->size());
  local_->post(local_rank()).run_rank = self().run_rank;
}

int MpiCommunicator::tag(const Member& from, const Member& to) const {
  return (id_ * kMaxThreads + from.thread) * kMaxThreads + to.thread;
}

// Inside each process, then among one rank of each, then inside each again. Every such rank sends a
// word to every other one, so that each knows who has not come.
void MpiCommunicator::barrier() {
  local_->wait_for_all(local_rank());
  if (local_rank() == 0) {
    for (const size_t leader : leaders_) {
      if (here(leader)) continue;
      receive(leader, {});
      send(leader, {});
    }
    finish_messages({});
  }
  local_->wait_for_all(local_rank());
}

void MpiCommunicator::receive(size_t from, Bytes buffer) {
  check(MPI_Irecv(buffer.data(), count_of(buffer.size()), MPI_BYTE, members_[from].process,
                  tag(members_[from], self()), process_->messages(), &requests_[from]),
        "receive");
}

void MpiCommunicator::send(size_t to, ConstBytes bytes) {
  check(
      MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, members_[to].process,
                tag(self(), members_[to]), process_->messages(), &requests_[members_.size() + to]),
      "send");
}

void MpiCommunicator::start_messages(std::span<const ConstBytes> send,
                                     std::span<const Bytes> buffers) {
  const size_t n = members_.size(), own = static_cast<size_t>(rank());
  size_t scratch = 0;
  for (size_t q = 0; q < n; ++q) scratch += in_scratch(q, buffers) ? buffers[q].size() : 0;
  if (scratch_.size() < scratch) scratch_.resize(scratch);
  std::byte* next = scratch_.data();
  for (size_t q = 0; q < n; ++q) {
    if (here(q)) continue;
    const bool moves = in_scratch(q, buffers);
    receive(q, {moves ? next : buffers[q].data(), buffers[q].size()});
    next += moves ? buffers[q].size() : 0;
  }
  // Each rank starts with the next one, so that no rank is sent to by all at once.
  for (size_t step = 1; step < n; ++step)
    if (const size_t q = (own + step) % n; !here(q)) this->send(q, send[q]);
}

// Names the ranks from which a message is missing, or that have not taken this rank's.
void MpiCommunicator::give_up(const Wait& wait) {
  std::vector<int> late;
  for (size_t q = 0; q < members_.size(); ++q) {
    int received = 1, sent = 1;
    MPI_Request_get_status(requests_[q], &received, MPI_STATUS_IGNORE);
    MPI_Request_get_status(requests_[members_.size() + q], &sent, MPI_STATUS_IGNORE);
    if (!received || !sent) late.push_back(members_[q].run_rank);
  }
  wait.give_up(self().run_rank, for_ranks(late));
}

void MpiCommunicator::finish_messages(std::span<const Bytes> buffers) {
  // MPI_Waitall would keep the core that another lane could compute on: after polling for a while
  // this sleeps between polls, and MPI moves data when it is polled.
  int code = MPI_SUCCESS, done = 0;
  std::optional<Wait> wait;
  LongWait listed(local_->state(), self().run_rank);
  for (int polls = 0;; ++polls) {
    code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
    if (done || code != MPI_SUCCESS) break;
    if (polls < kQuickQuestions) continue;
    std::this_thread::sleep_for(kBetweenQuestions);
    if (!wait) wait.emplace();
    if (wait->so_far() > kLongWait) listed.enter();
    if (wait->too_long(kBetweenProcesses * (process_->index() + 1))) give_up(*wait);
  }
  if (code == MPI_ERR_IN_STATUS)
    for (size_t i = 0; i < statuses_.size(); ++i) {
      if (i < buffers.size() && statuses_[i].MPI_ERROR == MPI_ERR_TRUNCATE)
        raise<CommError>("rank {} sent more than the {} bytes that rank {} expects at most", i,
                         buffers[i].size(), rank());
      check(statuses_[i].MPI_ERROR, "exchange");
    }
  check(code, "exchange");
}

void MpiCommunicator::read_all(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
                               Consume consume) {
  local_->begin_reading();
  try {
    const std::byte* next = scratch_.data();
    for (size_t q = 0; q < members_.size(); ++q) {
      ConstBytes bytes;
      if (static_cast<int>(q) == rank()) {
        bytes = send[q];
      } else if (here(q)) {
        bytes = local_->post(local_place_[q]).send[static_cast<size_t>(rank())];
      } else {
        int count = 0;
        check(MPI_Get_count(&statuses_[q], MPI_BYTE, &count), "size of a message");
        const bool moves = in_scratch(q, buffers);
        bytes = {moves ? next : buffers[q].data(), static_cast<size_t>(count)};
        next += moves ? buffers[q].size() : 0;
      }
      account_received(static_cast<int>(q), bytes.size(), buffers);
      consume(static_cast<int>(q), bytes);
    }
  } catch (...) {
    local_->end_reading();
    throw;
  }
  local_->end_reading();
}

void MpiCommunicator::visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
                            Consume consume) {
  account(send, buffers);
  local_->post(local_rank()).send = send;
  start_messages(send, buffers);
  try {
    local_->wait_for_all(local_rank());
    finish_messages(buffers);
    read_all(send, buffers, consume);
    local_->wait_for_all(local_rank());
  } catch (...) {
    local_->wait_for_readers();
    throw;
  }
}

std::unique_ptr<HostCommunicator> MpiCommunicator::part(int colour) {
  struct Word {
    int colour, id;
  };
  const Word mine{colour, process_->next_id.load()};
  std::vector<Word> all(members_.size());
  ThreadPool alone(1);
  all_gather({.pool = &alone}, std::as_bytes(std::span(&mine, 1)),
             std::as_writable_bytes(std::span(all)), 1);
  // Higher than that of any communicator that two of these ranks share.
  int id = 0;
  for (const Word& word : all) id = std::max(id, word.id);
  for (int next = process_->next_id; next <= id;)
    if (process_->next_id.compare_exchange_weak(next, id + 1)) break;

  std::vector<int> ranks;  // of this communicator
  Place place{.topology = topology(), .members = {}, .rank = 0};
  int here_too = 0;
  for (size_t q = 0; q < members_.size(); ++q) {
    if (all[q].colour != colour) continue;
    if (static_cast<int>(q) == rank()) place.rank = static_cast<int>(ranks.size());
    here_too += here(q) ? 1 : 0;
    ranks.push_back(static_cast<int>(q));
    place.members.push_back(members_[q]);
  }
  place.topology = topology().part(ranks);
  auto child = std::make_unique<MpiCommunicator>(process_, std::move(place), id,
                                                 local_->child(colour, here_too));
  local_->wait_for_all(local_rank());
  return child;
}

void MpiCommunicator::abort(const std::string& reason) noexcept {
  if (!local_->state().abort(reason)) return;  // another thread of this process is ending it
  end_all(reason);
}

}  // namespace hlite::comm

// The plug-in's one entry: starts MPI and makes this process's ranks.
extern "C" __attribute__((visibility("default"))) bool hlite_mpi_ranks(
    int version, const hlite::comm::Topology* topology, const char* identity,
    std::vector<std::unique_ptr<hlite::comm::Communicator>>* ranks, char* failure,
    size_t capacity) {
  using namespace hlite::comm;
  try {
    if (version != kMpiPluginVersion) hlite::raise<CommError>("it is of another version");
    const auto process = std::make_shared<MpiProcess>();
    process->require_same(identity);
    if (process->processes() != topology->nodes())
      hlite::raise<CommError>(
          "found {} processes, expected one for each row of solver.gpu, which has {}: start it "
          "with mpirun -np {}, or give solver.gpu a list for each process",
          process->processes(), topology->nodes(), topology->nodes());
    std::vector<MpiCommunicator::Member> members;
    for (int r = 0; r < topology->ranks(); ++r)
      members.push_back({topology->node_of(r), topology->local_of(r), r});
    const int here = topology->ranks_on(process->index());
    if (here > kMaxThreads)
      hlite::raise<CommError>("expected at most {} ranks a process, found {}", kMaxThreads, here);
    const auto group = ThreadGroup::make(here, std::make_shared<AbortState>());
    for (int local = 0; local < here; ++local)
      ranks->push_back(std::make_unique<MpiCommunicator>(
          process,
          MpiCommunicator::Place{*topology, members, topology->rank_at(process->index(), local)}, 0,
          group));
    return true;
  } catch (const std::exception& error) {
    std::snprintf(failure, capacity, "%s", error.what());
    return false;
  }
}
