#include "data_reader/memory_source.h"

#include <cmath>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"

namespace hlite::data {

MemorySource::MemorySource(std::vector<BatchBuffer> batches, int64_t start_batch)
    : batches_(std::move(batches)), position_(start_batch) {
  HLITE_CHECK(!batches_.empty() && start_batch >= 0, "{} batches, start at {}", batches_.size(),
              start_batch);
  for (const BatchBuffer& b : batches_) {
    HLITE_CHECK(b.batch().labels.dim(0) == batch_size(), "batches of {} and {} samples",
                b.batch().labels.dim(0), batch_size());
    samples_ += b.batch().size;
  }
}

const HostBatch& MemorySource::next() {
  return batches_[static_cast<size_t>(position_++) % batches_.size()].batch();
}

int64_t MemorySource::batch_size() const { return batches_[0].batch().labels.dim(0); }

std::vector<std::span<std::byte>> MemorySource::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const BatchBuffer& b : batches_) all.push_back(b.memory());
  return all;
}

std::vector<BatchBuffer> random_batches(int64_t count, int64_t batch, int64_t dense_dim,
                                        int64_t dense_width, const std::vector<int64_t>& slot_rows,
                                        uint64_t seed) {
  const auto slots = static_cast<int64_t>(slot_rows.size());
  std::vector<BatchBuffer> batches;
  for (int64_t b = 0; b < count; ++b) {
    BatchBuffer buffer(batch, 1, dense_width, slots);
    buffer.set_size(batch);
    HostBatch& h = buffer.batch();
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

}  // namespace hlite::data
