// An IoQueue that misbehaves in every way that a system may.
//
// Reads happen when they are reaped. Every buffer is filled with rubbish when its read is
// submitted, and so is the part of it that a short read leaves:
// data of an earlier read never looks right.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/io_queue.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

struct Faults {
  // What a read of `bytes` at `offset` returns: how many bytes (at most; the file may end before),
  // or -errno. `nth`: how many reads there were before, in this queue.
  std::function<int64_t(int64_t offset, int64_t bytes, int64_t nth)> result;
  uint64_t seed = 0;           // of the order in which reads finish
  bool out_of_order = false;   // any read in flight may finish next
  int64_t accept_most = 1000;  // in one call of submit()
  int64_t refuse_every = 0;    // every so manieth call of submit() takes nothing
  int64_t delay_rounds = 0;    // calls of reap() that give nothing before one that does
  int64_t file_size = -1;      // what file_size() says after `lie_after` calls; -1: the truth
  int64_t lie_after = 0;
};

// Seen by all queues of a factory.
struct FaultyTotals {
  std::atomic<int64_t> max_in_flight = 0, reads = 0, misaligned = 0, queues = 0;
};

class FaultyQueue final : public IoQueue {
 public:
  FaultyQueue(const std::string& path, const IoQueueOptions& options, Faults faults,
              std::shared_ptr<FaultyTotals> totals)
      : file_(path), options_(options), faults_(std::move(faults)), totals_(std::move(totals)) {
    ++totals_->queues;
  }
  ~FaultyQueue() override {
    while (!in_flight_.empty()) finish();
  }

  size_t submit(std::span<const IoRequest> requests) override {
    ++submits_;
    if (faults_.refuse_every > 0 && submits_ % faults_.refuse_every == 0) return 0;
    size_t n = 0;
    for (const IoRequest& r : requests) {
      if (static_cast<int64_t>(n) == faults_.accept_most ||
          static_cast<int64_t>(in_flight_.size()) == options_.depth)
        break;
      const auto a = options_.alignment;
      totals_->misaligned += r.offset % a != 0 || r.bytes % a != 0 ||
                             reinterpret_cast<uintptr_t>(r.buffer) % static_cast<uintptr_t>(a) != 0;
      std::memset(r.buffer, 0xee, static_cast<size_t>(r.bytes));
      in_flight_.push_back(r);
      ++n;
    }
    const auto now = static_cast<int64_t>(in_flight_.size());
    if (now > totals_->max_in_flight) totals_->max_in_flight = now;
    return n;
  }

  size_t reap(std::span<IoCompletion> done, std::chrono::milliseconds timeout) override {
    if (in_flight_.empty()) {
      std::unique_lock lock(mutex_);
      if (timeout < std::chrono::milliseconds(0))
        changed_.wait(lock, [&] { return woken_; });
      else
        changed_.wait_for(lock, timeout, [&] { return woken_; });
      woken_ = false;
      return 0;
    }
    if (round_++ % (faults_.delay_rounds + 1) != faults_.delay_rounds) return 0;
    // One to three at a time.
    size_t n = 0;
    const uint32_t most = 1 + random::word(faults_.seed, 0, static_cast<uint64_t>(round_)) % 3;
    while (n < std::min<size_t>(most, done.size()) && !in_flight_.empty()) done[n++] = finish();
    return n;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  [[nodiscard]] int64_t file_size() const override {
    return faults_.file_size >= 0 && asked_++ >= faults_.lie_after ? faults_.file_size
                                                                   : ReadFile(file_.name()).size();
  }

 private:
  IoCompletion finish() {
    size_t which = 0;
    if (faults_.out_of_order)
      which = random::word(faults_.seed, 1, static_cast<uint64_t>(reads_)) % in_flight_.size();
    const IoRequest r = in_flight_[which];
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(which));
    int64_t result = faults_.result ? faults_.result(r.offset, r.bytes, reads_) : r.bytes;
    ++reads_;
    ++totals_->reads;
    if (result > 0) {
      const int64_t there = std::max<int64_t>(0, ReadFile(file_.name()).size() - r.offset);
      result = std::min({result, r.bytes, there});
      file_.read(r.offset, {r.buffer, static_cast<size_t>(result)});
    }
    return {r.tag, result};
  }

  ReadFile file_;
  IoQueueOptions options_;
  Faults faults_;
  std::shared_ptr<FaultyTotals> totals_;
  std::vector<IoRequest> in_flight_;
  int64_t reads_ = 0, submits_ = 0, round_ = 0;
  mutable int64_t asked_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

inline IoQueueFactory faulty(Faults faults, std::shared_ptr<FaultyTotals> totals = {}) {
  if (!totals) totals = std::make_shared<FaultyTotals>();
  return
      [faults = std::move(faults), totals](const std::string& path, const IoQueueOptions& options) {
        return std::make_unique<FaultyQueue>(path, options, faults, totals);
      };
}

}  // namespace hlite::test
