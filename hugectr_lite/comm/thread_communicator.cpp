#include "hugectr_lite/comm/thread_communicator.h"

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace hlite::comm {

// The end of a run that failed, shared by the world's group and all that were split from it.
struct AbortState {
  std::mutex mutex;
  std::string reason;
  std::vector<std::weak_ptr<ThreadGroup>> groups;
  std::atomic<bool> aborted{false};
};

class ThreadGroup {
 public:
  ThreadGroup(int size, std::shared_ptr<AbortState> state)
      : size_(size), state_(std::move(state)), posts_(static_cast<size_t>(size)) {}

  // What a rank shows to the others between two barriers.
  struct alignas(64) Post {
    std::span<const ConstBytes> send;
    int colour = 0;
  };

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Post& post(int rank) { return posts_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::shared_ptr<AbortState>& state() const { return state_; }

  void wait_for_all() {
    check();
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
      generation_.notify_all();
    } else {
      // Ranks arrive within microseconds of each other when each has a core of its own.
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == generation; ++i)
        std::this_thread::yield();
      while (generation_.load(std::memory_order_acquire) == generation && !state_->aborted)
        generation_.wait(generation, std::memory_order_acquire);
    }
    check();
  }

  void wake() {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }

  // Reading what others posted. An abort lets ranks out of their call early, and what they posted
  // goes with them: so nobody begins to read after an abort, and whoever leaves a call because of
  // one waits until all who had begun are done.
  void begin_reading() {
    readers_.fetch_add(1);
    if (!state_->aborted.load()) return;
    end_reading();
    check();
  }
  void end_reading() { readers_.fetch_sub(1); }
  void wait_for_readers() const {
    while (readers_.load() != 0) std::this_thread::yield();
  }

  // The group of the ranks with this colour: made by the first of them that asks, given to
  // `members` of them.
  std::shared_ptr<ThreadGroup> child(int colour, int members) {
    const std::lock_guard lock(children_mutex_);
    auto& [group, left] = children_[colour];
    if (!group) {
      group = std::make_shared<ThreadGroup>(members, state_);
      left = members;
      const std::lock_guard state_lock(state_->mutex);
      state_->groups.push_back(group);
    }
    const auto result = group;
    if (--left == 0) children_.erase(colour);
    return result;
  }

 private:
  void check() const {
    if (!state_->aborted.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(state_->mutex);
    throw CommError(state_->reason);
  }

  static constexpr int kSpins = 64;

  const int size_;
  std::shared_ptr<AbortState> state_;
  std::vector<Post> posts_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<int> readers_{0};
  std::mutex children_mutex_;
  std::map<int, std::pair<std::shared_ptr<ThreadGroup>, int>> children_;
};

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
    : group_(std::move(group)), rank_(rank) {}
ThreadCommunicator::~ThreadCommunicator() = default;

int ThreadCommunicator::size() const { return group_->size(); }

void ThreadCommunicator::barrier() { group_->wait_for_all(); }

void ThreadCommunicator::visit(std::span<const ConstBytes> send, std::span<const size_t> most,
                               Consume consume) {
  account(send, most);
  group_->post(rank_).send = send;
  try {
    group_->wait_for_all();
    read_all(most, consume);
    // Nobody may change what it sends before all have read it.
    group_->wait_for_all();
  } catch (...) {
    group_->wait_for_readers();
    throw;
  }
}

void ThreadCommunicator::read_all(std::span<const size_t> most, Consume consume) {
  group_->begin_reading();
  try {
    for (int q = 0; q < size(); ++q) {
      const ConstBytes bytes = group_->post(q).send[static_cast<size_t>(rank_)];
      if (bytes.size() > most[static_cast<size_t>(q)])
        raise<CommError>("rank {} sent {} bytes to rank {}, which expects at most {}", q,
                         bytes.size(), rank_, most[static_cast<size_t>(q)]);
      consume(q, bytes);
    }
  } catch (const std::exception& error) {
    group_->end_reading();
    abort(error.what());
    throw;
  }
  group_->end_reading();
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int colour) {
  group_->post(rank_).colour = colour;
  group_->wait_for_all();
  int members = 0, place = 0;
  for (int q = 0; q < size(); ++q) {
    if (group_->post(q).colour != colour) continue;
    place += q < rank_ ? 1 : 0;
    ++members;
  }
  auto child = std::make_unique<ThreadCommunicator>(group_->child(colour, members), place);
  group_->wait_for_all();
  return child;
}

void ThreadCommunicator::abort(const std::string& reason) noexcept {
  AbortState& state = *group_->state();
  const std::lock_guard lock(state.mutex);
  if (state.aborted) return;
  state.reason = reason;
  state.aborted.store(true);
  for (const auto& group : state.groups)
    if (const auto alive = group.lock()) alive->wake();
}

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(int ranks) {
  HLITE_CHECK(ranks >= 1, "{} ranks", ranks);
  const auto state = std::make_shared<AbortState>();
  const auto group = std::make_shared<ThreadGroup>(ranks, state);
  state->groups.push_back(group);
  std::vector<std::unique_ptr<Communicator>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return all;
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  const auto communicators = make_thread_ranks(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](Communicator& communicator) {
    try {
      body(communicator);
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      communicator.abort(fmt::format("rank {}: {}", communicator.rank(), error.what()));
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < ranks; ++r)
    threads.emplace_back([&, r] { run(*communicators[static_cast<size_t>(r)]); });
  run(*communicators[0]);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hlite::comm
