#include "data_reader/open_source.h"

#include <algorithm>

#include "data_reader/async_reader.h"
#include "data_reader/manifest_fit.h"
#include "data_reader/norm_reader.h"
#include "data_reader/parquet/parquet_reader.h"
#include "data_reader/reader_plan.h"
#include "data_reader/shuffled_source.h"
#include "data_reader/text/text_reader.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/memory.h"

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
  if (config.format == config::DataFormat::kParquet)
    return std::make_unique<parquet::ParquetReader>(config, path, split, batch_size, slot_rows,
                                                    options);
  if (config.format == config::DataFormat::kCriteo)
    return std::make_unique<TextReader>(config, path, split, batch_size, slot_rows, options);
  require_fit(path, config, slot_rows);
  if (!config.is_raw())
    return std::make_unique<NormReader>(config, path, split, batch_size, slot_rows, options);
  return std::make_unique<AsyncReader>(config, path, split, batch_size, slot_rows, options);
}

int64_t count_samples(const config::DataConfig& config, const std::string& path, Split split,
                      std::span<const int64_t> slot_rows) {
  if (config.is_raw()) return raw_sample_count(config, split, path, ReadFile(path).size());
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
  if (config.format == config::DataFormat::kParquet)
    return parquet::ParquetReader::memory_bytes(config, rows * row, samples * row, options);
  if (config.format == config::DataFormat::kCriteo)
    return TextReader::memory_bytes(config, rows, row);
  if (!config.is_raw()) return NormReader::kSlots * rows * row;
  return plan_reader(config, rows, std::numeric_limits<int64_t>::max(), false,
                     available_memory_bytes())
      .bytes;
}

}  // namespace hlite::data
