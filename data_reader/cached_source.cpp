#include "data_reader/cached_source.h"

#include <utility>

#include "data_reader/open_source.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {

CachedSource::CachedSource(std::unique_ptr<BatchSource> resident) : source_(std::move(resident)) {
  HLITE_CHECK(source_->position() == 0, "the source is at batch {}", source_->position());
}

const HostBatch& CachedSource::next() {
  const int64_t n = source_->batches_per_epoch();
  if (std::ssize(batches_) < n) {
    const HostBatch& batch = source_->next();
    batches_.push_back(&batch);
  }
  const HostBatch& batch = *batches_[static_cast<size_t>(position_ % n)];
  ++position_;
  replaced_keys_ += batch.replaced_keys;
  return batch;
}

std::unique_ptr<BatchSource> open_evaluation_source(const config::DataConfig& config,
                                                    const std::string& path, int64_t batch_size,
                                                    std::span<const int64_t> slot_rows,
                                                    int64_t max_samples, int64_t batchsize_eval,
                                                    const Shard& shard) {
  SourceOptions options;
  options.max_samples = max_samples;
  options.shard = shard;
  auto streaming = open_source(config, path, Split::kEval, batch_size, slot_rows, options);
  if (config.cache_eval_data == 0) return streaming;
  const int64_t samples = streaming->samples();
  // Compares numbers of batches, because cache_eval_data * batchsize_eval could overflow.
  if ((samples + batchsize_eval - 1) / batchsize_eval > config.cache_eval_data) {
    log::info(
        "{}: {} samples are read again at each evaluation: cache_eval_data keeps {} batches of {}",
        path, samples, config.cache_eval_data, batchsize_eval);
    return streaming;
  }
  const auto batch_bytes = static_cast<int64_t>(streaming->memory().front().size());
  const int64_t bytes = batch_bytes * streaming->batches_per_epoch();
  if (const int64_t available = available_memory_bytes(); bytes > available / 2) {
    log::info(
        "{}: {} samples are read again at each evaluation: caching them would take {} MB, more "
        "than half of the {} MB available",
        path, samples, bytes / 1'000'000, available / 1'000'000);
    return streaming;
  }
  streaming.reset();
  options.repeat = false;
  options.resident = true;
  return std::make_unique<CachedSource>(
      open_source(config, path, Split::kEval, batch_size, slot_rows, options));
}

}  // namespace hlite::data
