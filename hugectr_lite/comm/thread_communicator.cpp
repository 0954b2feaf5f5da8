#include "hugectr_lite/comm/thread_communicator.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "hugectr_lite/comm/thread_group.h"

namespace hlite::comm {

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, Topology topology,
                                       int rank, int run_rank)
    : HostCommunicator(std::move(topology), rank), group_(std::move(group)) {
  group_->post(rank).run_rank = run_rank;
}
ThreadCommunicator::~ThreadCommunicator() = default;

void ThreadCommunicator::barrier() { group_->wait_for_all(rank()); }

void ThreadCommunicator::visit(std::span<const ConstBytes> send, std::span<const Bytes> buffers,
                               Consume consume) {
  account(send, buffers);
  group_->post(rank()).send = send;
  try {
    group_->wait_for_all(rank());
    read_all(buffers, consume);
    // No rank may change what it sends before all have read it.
    group_->wait_for_all(rank());
  } catch (...) {
    group_->wait_for_readers();
    throw;
  }
}

void ThreadCommunicator::read_all(std::span<const Bytes> buffers, Consume consume) {
  group_->begin_reading();
  try {
    for (int q = 0; q < size(); ++q) {
      const ConstBytes bytes = group_->post(q).send[static_cast<size_t>(rank())];
      account_received(q, bytes.size(), buffers);
      consume(q, bytes);
    }
  } catch (const std::exception& error) {
    group_->end_reading();
    abort(error.what());
    throw;
  }
  group_->end_reading();
}

std::unique_ptr<HostCommunicator> ThreadCommunicator::part(int colour) {
  group_->post(rank()).value = colour;
  group_->wait_for_all(rank());
  std::vector<int> members;
  int place = 0;
  for (int q = 0; q < size(); ++q) {
    if (group_->post(q).value != colour) continue;
    place += q < rank() ? 1 : 0;
    members.push_back(q);
  }
  auto child = std::make_unique<ThreadCommunicator>(
      group_->child(colour, static_cast<int>(members.size())), topology().part(members), place,
      group_->post(rank()).run_rank);
  group_->wait_for_all(rank());
  return child;
}

void ThreadCommunicator::abort(const std::string& reason) noexcept {
  group_->state().abort(reason);
}

bool ThreadCommunicator::aborted() const { return group_->state().aborted.load(); }

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(const Topology& topology) {
  const auto group = ThreadGroup::make(topology.ranks(), std::make_shared<AbortState>());
  std::vector<std::unique_ptr<Communicator>> all;
  for (int r = 0; r < topology.ranks(); ++r)
    all.push_back(std::make_unique<ThreadCommunicator>(group, topology, r, r));
  return all;
}

std::string abort_reason(int rank, const std::exception& error) {
  if (dynamic_cast<const TimeoutError*>(&error)) return error.what();  // it names its rank
  return fmt::format("rank {}: {}", rank, error.what());
}

namespace {

// The threads of the ranks of a process.
class RankThreads {
 public:
  void run(Communicator& communicator, const std::function<void(Communicator&)>& body) {
    try {
      body(communicator);
    } catch (const std::exception& error) {
      keep(error);
      communicator.abort(abort_reason(communicator.rank(), error));
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  // Until `ranks` have ended. When one has waited in vain for another, that one may never end; on a
  // busy machine it may also be slow to.
  void wait(size_t ranks) {
    std::unique_lock lock(mutex_);
    const auto all = [&] { return ended_ == ranks; };
    changed_.wait(lock, [&] { return all() || !late_.empty(); });
    if (changed_.wait_for(lock, kGrace, all)) return;
    std::fprintf(stderr, "%s\n", late_.c_str());
    std::fflush(nullptr);
    std::_Exit(kExitDevice);
  }
  void rethrow() const {
    if (own_) std::rethrow_exception(own_);
    if (of_others_) std::rethrow_exception(of_others_);
  }

 private:
  static constexpr std::chrono::seconds kGrace{60};

  void keep(const std::exception& error) {
    const bool of_others = dynamic_cast<const CommError*>(&error) != nullptr;
    const std::lock_guard lock(mutex_);
    if (std::exception_ptr& first = of_others ? of_others_ : own_; !first)
      first = std::current_exception();
    if (dynamic_cast<const TimeoutError*>(&error) && late_.empty()) late_ = error.what();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ended_ = 0;
  std::string late_;                    // message of the first TimeoutError
  std::exception_ptr own_, of_others_;  // the first of either kind
};

}  // namespace

void run_ranks(std::span<const std::unique_ptr<Communicator>> ranks,
               const std::function<void(Communicator&)>& body) {
  RankThreads all;
  std::vector<std::thread> threads;
  if (ranks.size() == 1) {
    all.run(*ranks[0], body);
  } else {
    for (const auto& rank : ranks)
      threads.emplace_back([&all, &body, &rank = *rank] { all.run(rank, body); });
    all.wait(ranks.size());
  }
  for (std::thread& thread : threads) thread.join();
  all.rethrow();
}

void run_ranks(const Topology& topology, const std::function<void(Communicator&)>& body) {
  run_ranks(make_thread_ranks(topology), body);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  run_ranks(Topology({ranks}), body);
}

}  // namespace hlite::comm
