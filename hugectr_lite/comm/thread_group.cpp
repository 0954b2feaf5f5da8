#include "hugectr_lite/comm/thread_group.h"

#include <thread>

namespace hlite::comm {
namespace {
// Ranks arrive within microseconds of each other when each has a core of its own.
constexpr int kSpins = 64;
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
  return group;
}

void ThreadGroup::check() const {
  if (!state_->aborted.load()) return;
  const std::lock_guard lock(state_->mutex);
  throw CommError(state_->reason);
}

void ThreadGroup::wait_for_all() {
  check();
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    wake();
  } else {
    for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == generation; ++i)
      std::this_thread::yield();
    while (generation_.load(std::memory_order_acquire) == generation && !state_->aborted)
      generation_.wait(generation, std::memory_order_acquire);
  }
  check();
}

void ThreadGroup::wake() {
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
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
