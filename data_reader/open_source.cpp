#include "data_reader/open_source.h"

#include <algorithm>

#include "data_reader/async_reader.h"
#include "data_reader/norm_reader.h"
#include "data_reader/reader_plan.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/memory.h"

namespace hlite::data {

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
  if (!config.is_raw())
    return std::make_unique<NormReader>(config, path, split, batch_size, slot_rows, options);
  return std::make_unique<AsyncReader>(config, path, split, batch_size, slot_rows, options);
}

int64_t source_memory_bytes(const config::DataConfig& config, int64_t batch_size) {
  return plan_reader(config, batch_size, std::numeric_limits<int64_t>::max(), false,
                     available_memory_bytes())
      .bytes;
}

}  // namespace hlite::data
