#include "data_reader/open_source.h"

#include <algorithm>

#include "data_reader/record_format.h"
#include "data_reader/shuffled_source.h"
#include "hugectr_lite/core/error.h"

namespace hlite::data {

// Labels, dense features and keys of a batch alike.
static constexpr int64_t kBytesOfNumber = 4;

BatchRows rows_of_batch(int64_t batch, int64_t samples, int64_t batch_size, const Shard& shard) {
  HLITE_CHECK(shard.count >= 1 && shard.index >= 0 && shard.index < shard.count &&
                  batch_size % shard.count == 0,
              "shard {} of {}, batches of {}", shard.index, shard.count, batch_size);
  const int64_t first = batch * batch_size, rows = batch_size / shard.count;
  const int64_t size = std::min(batch_size, samples - first);
  const int64_t begin = std::min(size, shard.index * rows);
  return {first + begin, std::min(size, begin + rows) - begin};
}

std::unique_ptr<BatchSource> open_source(const config::DataConfig& config, const std::string& path,
                                         Split split, int64_t batch_size,
                                         std::span<const int64_t> slot_rows,
                                         const SourceOptions& options) {
  if (options.shuffle_samples)
    return open_shuffled_source(config, path, split, batch_size, slot_rows, options);
  return record_format(config).open(config, path, split, batch_size, slot_rows, options);
}

int64_t count_samples(const config::DataConfig& config, const std::string& path, Split split,
                      std::span<const int64_t> slot_rows) {
  if (const int64_t known = record_format(config).count(config, path, split); known >= 0)
    return known;
  constexpr int64_t kBatch = 8192;
  SourceOptions once;
  once.repeat = false;
  return open_source(config, path, split, kBatch, slot_rows, once)->samples();
}

int64_t source_memory_bytes(const config::DataConfig& config, int64_t rows, int64_t samples,
                            const SourceOptions& options) {
  const int64_t row =
      kBytesOfNumber * (config.label_width() + config.dense_width() + config.key_layout().columns);
  if (options.shuffle_samples) return samples * row + ShuffledSource::kSlots * rows * row;
  return record_format(config).memory_bytes(config, rows, row, samples, options);
}

}  // namespace hlite::data
