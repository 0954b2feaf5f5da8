// The order in which a source delivers batches: a pure function of seed and position.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace hlite::data {

// Fills `order` [n] with the order of the batches in an epoch: a permutation of [0, n) that depends
// only on (seed, epoch).
void shuffle_order(uint64_t seed, int64_t epoch, std::span<int64_t> order);

// Maps position p, counted over all epochs, to batch order[p % batches] of the file. The order is
// the identity or, with shuffle, the shuffle_order() of epoch p / batches. Thread-safe.
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
  Epoch latest_, other_;  // cached for two epochs, as readers work across their border
};

}  // namespace hlite::data
