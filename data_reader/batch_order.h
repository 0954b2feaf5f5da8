// The order in which batches are handed out: a pure function of seed and position.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace hlite::data {

// The batch at place `index` of epoch `epoch`'s order, for all indices: a permutation of [0, n)
// drawn by (seed, epoch).
void shuffle_order(uint64_t seed, int64_t epoch, std::span<int64_t> order);

// Position p (counted over all epochs) gives batch order(p % batches) of the file; order is the
// identity, or with shuffle the permutation of (seed, p / batches). Any thread may ask.
class BatchOrder {
 public:
  BatchOrder(int64_t batches, bool shuffle, uint64_t seed);
  [[nodiscard]] int64_t batch_at(int64_t position);

 private:
  struct Epoch {
    int64_t number = -1;
    std::vector<int64_t> order;
  };

  int64_t batches_;
  bool shuffle_;
  uint64_t seed_;
  std::mutex mutex_;
  Epoch latest_, other_;  // readers look across the border between two epochs
};

}  // namespace hlite::data
