// State that rank threads of one process share: a barrier that an abort opens, and a place for each
// rank to show the others what it sends.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

class ThreadGroup;

// The end of a run that failed, shared by the world's group and all that were split from it.
struct AbortState {
  std::mutex mutex;
  std::string reason;
  std::vector<std::weak_ptr<ThreadGroup>> groups;
  std::atomic<bool> aborted{false};
  // Ranks of the run that are in a long wait themselves, so that a rank which waits for them does
  // not report them as late. Contains a rank once for each of its lanes, and has room for all of
  // them: how long a wait takes must not decide whether an iteration allocates.
  std::vector<int> waiting;
  size_t lanes = 0;  // of all ranks, together

  // The first reason counts; wakes every rank of every group. Returns whether it was the first.
  bool abort(const std::string& why) noexcept;
};

// Keeps a rank in AbortState::waiting, from enter() on.
class LongWait {
 public:
  LongWait(AbortState& state, int rank) : state_(state), rank_(rank) {}
  ~LongWait();
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;
  void enter();

 private:
  AbortState& state_;
  const int rank_;
  bool entered_ = false;
};

class ThreadGroup {
 public:
  // A group of `size` ranks that is notified of aborts.
  static std::shared_ptr<ThreadGroup> make(int size, std::shared_ptr<AbortState> state);

  // Data that a rank shows to the others between two barriers.
  struct alignas(64) Post {
    std::span<const ConstBytes> send;
    int64_t value = 0;
    int run_rank = 0;               // the rank's number in the whole run
    std::atomic<uint32_t> came{0};  // to which generation of the barrier, plus one
  };
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Post& post(int rank) { return posts_[static_cast<size_t>(rank)]; }
  [[nodiscard]] AbortState& state() { return *state_; }

  // Returns when all ranks have called it; throws CommError with the reason after an abort,
  // TimeoutError when others have not come within the time limit.
  void wait_for_all(int rank);
  void wake();

  // Reads what other ranks posted. An abort lets ranks leave their call early, and what they posted
  // goes with them. So no rank begins to read after an abort, and a rank that leaves a call because
  // of one waits until all readers are done.
  void begin_reading();
  void end_reading() { readers_.fetch_sub(1); }
  void wait_for_readers() const;

  // The group of those of this group that name the same key: made by the first of them that asks,
  // given to `members` of them.
  std::shared_ptr<ThreadGroup> child(int64_t key, int members);

 private:
  ThreadGroup(int size, std::shared_ptr<AbortState> state)
      : size_(size), state_(std::move(state)), posts_(static_cast<size_t>(size)) {}
  void check() const;
  void wait_long(int rank, uint32_t generation);
  [[nodiscard]] std::vector<int> missing(uint32_t generation, bool blame_waiting) const;

  const int size_;
  std::shared_ptr<AbortState> state_;
  std::vector<Post> posts_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int> readers_{0};
  std::mutex children_mutex_;
  std::map<int64_t, std::pair<std::shared_ptr<ThreadGroup>, int>> children_;
};

}  // namespace hlite::comm
