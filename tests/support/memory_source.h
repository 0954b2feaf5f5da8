// Batches that are in memory already: given out in turn, for ever.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

class MemorySource final : public data::BatchSource {
 public:
  // At least one batch, all of the same full size. `start_batch` as in a resumed run.
  explicit MemorySource(std::vector<data::BatchBuffer> batches, int64_t start_batch = 0)
      : batches_(std::move(batches)), position_(start_batch) {
    HLITE_CHECK(!batches_.empty() && start_batch >= 0, "{} batches, start at {}", batches_.size(),
                start_batch);
    for (const data::BatchBuffer& b : batches_) {
      HLITE_CHECK(b.batch().labels.dim(0) == batch_size(), "batches of {} and {} samples",
                  b.batch().labels.dim(0), batch_size());
      samples_ += b.batch().size;
    }
  }

  const data::HostBatch& next() override {
    return batches_[static_cast<size_t>(position_++) % batches_.size()].batch();
  }
  [[nodiscard]] int64_t batch_size() const override { return batches_[0].batch().labels.dim(0); }
  [[nodiscard]] int64_t samples() const override { return samples_; }
  [[nodiscard]] int64_t position() const override { return position_; }
  [[nodiscard]] double wait_seconds() const override { return 0; }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override {
    std::vector<std::span<std::byte>> all;
    for (const data::BatchBuffer& b : batches_) all.push_back(b.memory());
    return all;
  }

 private:
  std::vector<data::BatchBuffer> batches_;
  int64_t samples_ = 0;
  int64_t position_ = 0;
};

// `count` full batches of random labels, dense features log(x + 1) of x in [0, 100), and keys
// uniform over each slot's rows; the same for the same seed.
inline std::vector<data::BatchBuffer> random_batches(int64_t count, int64_t batch,
                                                     int64_t dense_dim, int64_t dense_width,
                                                     const std::vector<int64_t>& slot_rows,
                                                     uint64_t seed) {
  const auto slots = static_cast<int64_t>(slot_rows.size());
  std::vector<data::BatchBuffer> batches;
  for (int64_t b = 0; b < count; ++b) {
    data::BatchBuffer buffer(batch, 1, dense_width, slots);
    buffer.set_size(batch);
    data::HostBatch& h = buffer.batch();
    h.first_sample = b * batch;
    // One stream of numbers a sample: label, dense, keys.
    for (int64_t i = 0; i < batch; ++i) {
      const auto stream = static_cast<uint64_t>(h.first_sample + i);
      uint64_t n = 0;
      h.labels(i, 0) = static_cast<float>(random::word(seed, stream, n++) & 1);
      for (int64_t d = 0; d < dense_dim; ++d)
        h.dense(i, d) = std::log1p(static_cast<float>(random::word(seed, stream, n++) % 100));
      for (int64_t s = 0; s < slots; ++s) {
        const auto rows = static_cast<uint64_t>(slot_rows[static_cast<size_t>(s)]);
        h.keys(i, s) = static_cast<uint32_t>((random::word(seed, stream, n++) * rows) >> 32);
      }
    }
    batches.push_back(std::move(buffer));
  }
  return batches;
}

}  // namespace hlite::test
