#include "data_reader/open_source.h"

#include <algorithm>

#include "data_reader/async_reader.h"
#include "data_reader/manifest.h"
#include "data_reader/norm_reader.h"
#include "data_reader/parquet/parquet_reader.h"
#include "data_reader/reader_plan.h"
#include "data_reader/shuffled_source.h"
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

// A float's bits as an integer, and the other way round, are wrong numbers that may look right.
static void require_manifests_numbers(const config::DataConfig& config, const std::string& path) {
  const auto beside = find_manifest_of(path, DamagedManifest::kPassOver);
  if (!beside) return;
  const Manifest& manifest = beside->manifest;
  if (manifest.format != "raw" && manifest.format != "multi_hot_raw") return;
  if (manifest.float_label == config.float_label && manifest.float_dense == config.float_dense)
    return;
  const auto kind = [](bool is_float) { return is_float ? "float32" : "int32"; };
  raise<DataError>(
      "{}: expected {} labels and {} dense features, as {} says, found {} and {} in the config; "
      "set "
      "\"float_label_dense\": {} in layers[0]",
      path, kind(manifest.float_label), kind(manifest.float_dense), beside->path,
      kind(config.float_label), kind(config.float_dense), manifest.float_dense);
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
  if (!config.is_raw())
    return std::make_unique<NormReader>(config, path, split, batch_size, slot_rows, options);
  require_manifests_numbers(config, path);
  return std::make_unique<AsyncReader>(config, path, split, batch_size, slot_rows, options);
}

int64_t source_memory_bytes(const config::DataConfig& config, int64_t batch_size) {
  return plan_reader(config, batch_size, std::numeric_limits<int64_t>::max(), false,
                     available_memory_bytes())
      .bytes;
}

}  // namespace hlite::data
