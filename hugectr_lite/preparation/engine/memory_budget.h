// Memory that several tasks share: each reserves its share here first.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::prep {

// A task wanted more than was left. What it wanted in all, for a message.
class OutOfBudget final : public Error {
 public:
  OutOfBudget(int64_t wanted, int64_t left)
      : Error(fmt::format("{} bytes of memory wanted, {} left", wanted, left)), wanted_(wanted) {}
  [[nodiscard]] int64_t wanted() const { return wanted_; }

 private:
  int64_t wanted_;
};

class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : total_(bytes), left_(bytes) {}
  [[nodiscard]] int64_t total() const { return total_; }
  // Throws OutOfBudget.
  void take(int64_t bytes) {
    int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (bytes > left) throw OutOfBudget(bytes, left);
    } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  }
  void give(int64_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  int64_t total_;
  std::atomic<int64_t> left_;
};

// An array of zeroes whose memory comes from a budget, and grows by copying.
template <typename T>
class BudgetArray {
 public:
  explicit BudgetArray(MemoryBudget& budget) : budget_(&budget) {}
  BudgetArray(MemoryBudget& budget, size_t size) : budget_(&budget) { replace(size); }
  BudgetArray(const BudgetArray&) = delete;
  BudgetArray& operator=(const BudgetArray&) = delete;
  ~BudgetArray() { budget_->give(taken_); }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] int64_t bytes() const { return taken_; }

  // Exchanges the content for `size` zeroes and returns the old memory, still taken until the
  // returned array is gone.
  BudgetArray replaced(size_t size) {
    BudgetArray fresh(*budget_, size);
    swap(fresh);
    return fresh;
  }
  BudgetArray(BudgetArray&& other) noexcept : budget_(other.budget_) { swap(other); }
  void swap(BudgetArray& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(taken_, other.taken_);
  }

 private:
  void replace(size_t size) {
    const auto bytes = static_cast<int64_t>(size * sizeof(T));
    budget_->take(bytes);
    taken_ = bytes;
    memory_ = HostMemory(static_cast<size_t>(bytes), "numbering of keys");
    size_ = size;
  }

  MemoryBudget* budget_;
  HostMemory memory_;
  size_t size_ = 0;
  int64_t taken_ = 0;
};

}  // namespace hlite::prep
