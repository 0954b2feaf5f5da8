// The memory that the bodies of all requests and answers may have together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace hlite::serve {

class BodyBudget {
 public:
  explicit BodyBudget(int64_t limit) : limit_(limit) {}

  [[nodiscard]] int64_t limit() const { return limit_; }
  [[nodiscard]] int64_t used() const { return used_; }
  // Counts bytes; false, and none are counted, where they are too many. From any thread.
  [[nodiscard]] bool take(int64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_ -= bytes;
    return false;
  }
  void give_back(int64_t bytes) { used_ -= bytes; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// Bytes of one body, given back at its end.
class BodyLease {
 public:
  BodyLease() = default;
  explicit BodyLease(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyLease(BodyLease&& from) noexcept
      : budget_(std::move(from.budget_)), bytes_(std::exchange(from.bytes_, 0)) {}
  BodyLease& operator=(BodyLease&& from) noexcept {
    std::swap(budget_, from.budget_);
    std::swap(bytes_, from.bytes_);
    return *this;
  }
  ~BodyLease() {
    if (budget_) budget_->give_back(bytes_);
  }

  // Counts more bytes; false: too many. Of no budget there are never too many.
  [[nodiscard]] bool grow(int64_t bytes) {
    if (budget_ && !budget_->take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // What working on the body takes once more, as far as a body that is alone may have it.
  [[nodiscard]] bool grow_by_itself() {
    return !budget_ || grow(std::min(bytes_, budget_->limit() - bytes_));
  }
  // Bytes that could come now.
  [[nodiscard]] bool has_room_for(int64_t bytes) const {
    return !budget_ || budget_->used() + bytes <= budget_->limit();
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace hlite::serve
