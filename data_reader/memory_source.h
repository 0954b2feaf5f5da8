// Batches that are in memory already: given out in turn, for ever. For benchmarks and tests.
#pragma once

#include <cstdint>
#include <vector>

#include "data_reader/batch_source.h"

namespace hlite::data {

class MemorySource final : public BatchSource {
 public:
  // At least one batch, all of the same full size. `start_batch` as in a resumed run.
  explicit MemorySource(std::vector<BatchBuffer> batches, int64_t start_batch = 0);

  const HostBatch& next() override;
  [[nodiscard]] int64_t batch_size() const override;
  [[nodiscard]] int64_t samples() const override { return samples_; }
  [[nodiscard]] int64_t position() const override { return position_; }
  [[nodiscard]] double wait_seconds() const override { return 0; }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override;

 private:
  std::vector<BatchBuffer> batches_;
  int64_t samples_ = 0;
  int64_t position_ = 0;
};

// `count` full batches of random labels, dense features log(x + 1) of x in [0, 100), and keys
// uniform over each slot's rows; the same for the same seed.
std::vector<BatchBuffer> random_batches(int64_t count, int64_t batch, int64_t dense_dim,
                                        int64_t dense_width, const std::vector<int64_t>& slot_rows,
                                        uint64_t seed);

}  // namespace hlite::data
