#include "hugectr_lite/preparation/synth/key_counts.h"

#include <algorithm>

#include "hugectr_lite/core/error.h"

namespace hlite::prep {

CategoryCounts::CategoryCounts(const std::vector<int64_t>& sizes, int threads)
    : rows_(static_cast<size_t>(threads)) {
  HLITE_CHECK(sizes.size() == criteo::kSlots, "{} slots", sizes.size());
  for (int i = 0; i < threads; ++i) heads_.emplace_back(sizes.size() * kHead, 0);
  int64_t total = 0;
  for (const int64_t size : sizes) {
    first_.push_back(total);
    total += std::max<int64_t>(size - kHead, 0);
  }
  tail_.reset(new std::atomic<uint32_t>[static_cast<size_t>(total)]());
}

int64_t CategoryCounts::rows() const {
  int64_t sum = 0;
  for (const Rows& r : rows_) sum += r.count;
  return sum;
}

int64_t CategoryCounts::count(int slot, int64_t category) const {
  const auto s = static_cast<size_t>(slot), c = static_cast<size_t>(category);
  if (category >= kHead) {
    return tail_[static_cast<size_t>(first_[s]) + c - kHead].load(std::memory_order_relaxed);
  }
  int64_t sum = 0;
  for (const auto& head : heads_) sum += head[s * kHead + c];
  return sum;
}

}  // namespace hlite::prep
