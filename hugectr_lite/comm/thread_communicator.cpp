#include "hugectr_lite/comm/thread_communicator.h"

#include <exception>
#include <thread>

#include "hugectr_lite/comm/thread_group.h"

namespace hlite::comm {

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, Topology topology,
                                       int rank)
    : HostCommunicator(std::move(topology), rank), group_(std::move(group)) {}
ThreadCommunicator::~ThreadCommunicator() = default;

void ThreadCommunicator::barrier() { group_->wait_for_all(); }

void ThreadCommunicator::visit(std::span<const ConstBytes> send, std::span<const Bytes> room,
                               Consume consume) {
  account(send, room);
  group_->post(rank()).send = send;
  try {
    group_->wait_for_all();
    read_all(room, consume);
    // Nobody may change what it sends before all have read it.
    group_->wait_for_all();
  } catch (...) {
    group_->wait_for_readers();
    throw;
  }
}

void ThreadCommunicator::read_all(std::span<const Bytes> room, Consume consume) {
  group_->begin_reading();
  try {
    for (int q = 0; q < size(); ++q) {
      const ConstBytes bytes = group_->post(q).send[static_cast<size_t>(rank())];
      account_received(q, bytes.size(), room);
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
  group_->wait_for_all();
  std::vector<int> members;
  int place = 0;
  for (int q = 0; q < size(); ++q) {
    if (group_->post(q).value != colour) continue;
    place += q < rank() ? 1 : 0;
    members.push_back(q);
  }
  auto child = std::make_unique<ThreadCommunicator>(
      group_->child(colour, static_cast<int>(members.size())), topology().part(members), place);
  group_->wait_for_all();
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
    all.push_back(std::make_unique<ThreadCommunicator>(group, topology, r));
  return all;
}

void run_ranks(std::span<const std::unique_ptr<Communicator>> ranks,
               const std::function<void(Communicator&)>& body) {
  std::mutex mutex;
  std::exception_ptr own, told;  // the first of either kind
  const auto run = [&](Communicator& communicator) {
    try {
      body(communicator);
    } catch (const std::exception& error) {
      {
        const bool of_others = dynamic_cast<const CommError*>(&error) != nullptr;
        const std::lock_guard lock(mutex);
        if (std::exception_ptr& first = of_others ? told : own; !first)
          first = std::current_exception();
      }
      communicator.abort(fmt::format("rank {}: {}", communicator.rank(), error.what()));
    }
  };
  std::vector<std::thread> threads;
  for (size_t r = 1; r < ranks.size(); ++r)
    threads.emplace_back([&run, &rank = *ranks[r]] { run(rank); });
  run(*ranks[0]);
  for (std::thread& thread : threads) thread.join();
  if (own) std::rethrow_exception(own);
  if (told) std::rethrow_exception(told);
}

void run_ranks(const Topology& topology, const std::function<void(Communicator&)>& body) {
  run_ranks(make_thread_ranks(topology), body);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  run_ranks(Topology({ranks}), body);
}

}  // namespace hlite::comm
