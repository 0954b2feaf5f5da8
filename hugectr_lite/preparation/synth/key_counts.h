// Counts of each category of generated rows.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "data_reader/criteo/criteo_record.h"

namespace hlite::prep {

using Categories = std::array<uint32_t, criteo::kSlots>;

// Frequent categories are counted by each thread for itself, the rest together; the result does not
// depend on who counted what. Category 0 is "missing", 1... the categories by rank.
class CategoryCounts {
 public:
  static constexpr uint32_t kHead = 1024;  // categories that every thread counts for itself

  // `sizes`: categories of each slot, 0 included.
  CategoryCounts(const std::vector<int64_t>& sizes, int threads);

  void add(int worker, const Categories& row) {
    int64_t* head = heads_[static_cast<size_t>(worker)].data();
    for (size_t s = 0; s < row.size(); ++s, head += kHead) {
      if (row[s] < kHead) {
        ++head[row[s]];
      } else {
        tail_[static_cast<size_t>(first_[s]) + row[s] - kHead].fetch_add(1,
                                                                         std::memory_order_relaxed);
      }
    }
    ++rows_[static_cast<size_t>(worker)].count;
  }

  // Below: once all is added.
  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t missing(int slot) const { return count(slot, 0); }
  [[nodiscard]] int64_t count(int slot, int64_t category) const;

 private:
  struct alignas(64) Rows {
    int64_t count = 0;
  };
  std::vector<std::vector<int64_t>> heads_;  // [worker][slot * kHead + category]
  std::vector<Rows> rows_;                   // [worker]
  std::vector<int64_t> first_;               // of each slot in tail_
  std::unique_ptr<std::atomic<uint32_t>[]> tail_;
};

}  // namespace hlite::prep
