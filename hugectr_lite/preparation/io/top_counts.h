// TopCounts: of many things, how often the most frequent ones occur.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace hlite::prep {

class TopCounts {
 public:
  // Manifests and reports have the shares of so many.
  static constexpr int64_t kTop[4] = {1, 10, 100, 1000};

  // A thing occurs so often.
  void add(int64_t count) {
    const bool full = std::ssize(largest_) == kTop[3];
    if (full && count <= largest_.front()) return;
    if (full) {
      std::pop_heap(largest_.begin(), largest_.end(), std::greater<>());
      largest_.pop_back();
    }
    largest_.push_back(count);
    std::push_heap(largest_.begin(), largest_.end(), std::greater<>());
  }

  // share[i]: of `all` occurrences, those of the kTop[i] most frequent things; 0 of none.
  void shares(int64_t all, double (&share)[4]) const {
    std::vector<int64_t> sorted = largest_;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    int64_t sum = 0;
    for (size_t i = 0, k = 0; k < std::size(kTop); ++k) {
      for (; i < sorted.size() && static_cast<int64_t>(i) < kTop[k]; ++i) sum += sorted[i];
      share[k] = all > 0 ? static_cast<double>(sum) / static_cast<double>(all) : 0.0;
    }
  }

 private:
  std::vector<int64_t> largest_;  // a heap, the least in front
};

}  // namespace hlite::prep
