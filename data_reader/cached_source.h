// A data set that is read repeatedly and is in memory after the first pass.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/open_source.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

// Hands out the batches of a resident source (SourceOptions) repeatedly. Batches stay where the
// first pass put them: nothing is copied, and no file is read again.
class CachedSource final : public BatchSource {
 public:
  explicit CachedSource(std::unique_ptr<BatchSource> resident);

  const HostBatch& next() override;
  [[nodiscard]] int64_t batch_size() const override { return source_->batch_size(); }
  [[nodiscard]] int64_t samples() const override { return source_->samples(); }
  [[nodiscard]] int64_t position() const override { return position_; }
  [[nodiscard]] int64_t replaced_keys() const override { return replaced_keys_; }
  [[nodiscard]] double wait_seconds() const override { return source_->wait_seconds(); }
  [[nodiscard]] int64_t bytes_read() const override { return source_->bytes_read(); }
  [[nodiscard]] double decode_seconds() const override { return source_->decode_seconds(); }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const override {
    return source_->memory();
  }

 private:
  std::unique_ptr<BatchSource> source_;
  std::vector<const HostBatch*> batches_;  // handed out so far
  int64_t position_ = 0, replaced_keys_ = 0;
};

// A source that repeats the first `max_samples` samples of an evaluation set, in file order. It
// keeps them in memory if they fit into cache_eval_data batches of `batchsize_eval` and half of the
// available memory. Otherwise it reads them each time, and logs why unless cache_eval_data is 0.
// With a shard, it gives the shard's rows of each batch.
std::unique_ptr<BatchSource> open_evaluation_source(const config::DataConfig& config,
                                                    const std::string& path, int64_t batch_size,
                                                    std::span<const int64_t> slot_rows,
                                                    int64_t max_samples, int64_t batchsize_eval,
                                                    const Shard& shard = {});

}  // namespace hlite::data
