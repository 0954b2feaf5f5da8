// A set that is read over and over and stays in memory after the first pass.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/open_source.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

// Hands out the batches of a resident source (SourceOptions) again and again. Nothing is copied:
// they lie where the first pass put them, and no file is touched after it.
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
  std::vector<const HostBatch*> batches_;  // that have been handed out
  int64_t position_ = 0, replaced_keys_ = 0;
};

// The first `max_samples` samples of an evaluation set, in the order of the file, again and again;
// in batches of `batch_size`, the model's own. Kept in memory when cache_eval_data batches of
// `batchsize_eval` hold them and half of the available memory does; else read anew each time, and
// a log line says why. With a shard: those rows of each batch.
std::unique_ptr<BatchSource> open_evaluation_source(const config::DataConfig& config,
                                                    const std::string& path, int64_t batch_size,
                                                    std::span<const int64_t> slot_rows,
                                                    int64_t max_samples, int64_t batchsize_eval,
                                                    const Shard& shard = {});

}  // namespace hlite::data
