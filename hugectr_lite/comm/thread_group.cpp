#include "hugectr_lite/comm/thread_group.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <thread>

#include "hugectr_lite/comm/wait_limit.h"

namespace hlite::comm {
namespace {

// Ranks arrive within microseconds of each other when each has a core of its own.
constexpr int kSpins = 64;
constexpr std::chrono::milliseconds kCheckInterval{50};

// std::atomic::wait() has no time limit. Returns false when that has passed.
bool sleep_while(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds most) {
  static_assert(sizeof word == sizeof value && std::atomic<uint32_t>::is_always_lock_free);
  const timespec time{.tv_sec = 0, .tv_nsec = most.count()};
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &time, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void wake_sleepers(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

bool AbortState::abort(const std::string& why) noexcept {
  const std::lock_guard lock(mutex);
  if (aborted) return false;
  reason = why;
  aborted.store(true);
  for (const auto& group : groups)
    if (const auto alive = group.lock()) alive->wake();
  return true;
}

std::shared_ptr<ThreadGroup> ThreadGroup::make(int size, std::shared_ptr<AbortState> state) {
  const std::shared_ptr<ThreadGroup> group(new ThreadGroup(size, std::move(state)));
  const std::lock_guard lock(group->state_->mutex);
  std::erase_if(group->state_->groups, [](const auto& g) { return g.expired(); });
  group->state_->groups.push_back(group);
  group->state_->lanes += static_cast<size_t>(size);
  group->state_->waiting.reserve(group->state_->lanes);
  return group;
}

void ThreadGroup::check() const {
  if (!state_->aborted.load()) return;
  const std::lock_guard lock(state_->mutex);
  throw CommError(state_->reason);
}

void ThreadGroup::wait_for_all(int rank) {
  check();
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  post(rank).came.store(generation + 1, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    wake();
  } else {
    for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == generation; ++i)
      std::this_thread::yield();
    if (generation_.load(std::memory_order_acquire) == generation) wait_long(rank, generation);
  }
  check();
}

void ThreadGroup::wait_long(int rank, uint32_t generation) {
  const int run_rank = post(rank).run_rank;
  Wait wait;
  LongWait listed(*state_, run_rank);
  while (generation_.load(std::memory_order_acquire) == generation && !state_->aborted) {
    ++sleepers_;
    const bool woken = sleep_while(generation_, generation, kCheckInterval);
    --sleepers_;
    if (woken) continue;
    listed.enter();
    if (!wait.too_long()) continue;
    // A rank that itself waits reports whom it waits for, unless ranks wait for each other.
    if (const auto ranks = missing(generation, wait.too_long(wait.limit())); !ranks.empty())
      wait.give_up(run_rank, for_ranks(ranks));
  }
}

// Numbers in the run of the ranks that have not come.
std::vector<int> ThreadGroup::missing(uint32_t generation, bool blame_waiting) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<int> ranks;
  const auto waits = [&](int rank) {
    return std::find(state_->waiting.begin(), state_->waiting.end(), rank) != state_->waiting.end();
  };
  for (const Post& post : posts_)
    if (post.came.load(std::memory_order_relaxed) != generation + 1 &&
        (blame_waiting || !waits(post.run_rank)))
      ranks.push_back(post.run_rank);
  return ranks;
}

void ThreadGroup::wake() {
  generation_.fetch_add(1);
  if (sleepers_.load() > 0) wake_sleepers(generation_);
}

LongWait::~LongWait() {
  if (!entered_) return;
  const std::lock_guard lock(state_.mutex);
  state_.waiting.erase(std::find(state_.waiting.begin(), state_.waiting.end(), rank_));
}

void LongWait::enter() {
  if (entered_) return;
  const std::lock_guard lock(state_.mutex);
  state_.waiting.push_back(rank_);
  entered_ = true;
}

void ThreadGroup::begin_reading() {
  readers_.fetch_add(1);
  if (!state_->aborted.load()) return;
  end_reading();
  check();
}

void ThreadGroup::wait_for_readers() const {
  while (readers_.load() != 0) std::this_thread::yield();
}

std::shared_ptr<ThreadGroup> ThreadGroup::child(int64_t key, int members) {
  const std::lock_guard lock(children_mutex_);
  auto& [group, left] = children_[key];
  if (!group) {
    group = make(members, state_);
    left = members;
  }
  const auto result = group;
  if (--left == 0) children_.erase(key);
  return result;
}

}  // namespace hlite::comm
