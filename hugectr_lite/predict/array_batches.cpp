#include "hugectr_lite/predict/array_batches.h"

#include <algorithm>

namespace hlite::predict {

ArrayBatches::ArrayBatches(const config::DataConfig& config, std::span<const int64_t> slot_rows,
                           int64_t most)
    : rows_(config, slot_rows),
      buffer_(most, config.label_width(), config.dense_width(), rows_.key_columns()) {}

const data::HostBatch& ArrayBatches::fill(const SampleArrays& samples, int64_t first) {
  rows_.check_shapes(samples);
  if (first == 0) counts_ = rows_.no_counts();
  data::HostBatch& batch = buffer_.batch();
  const config::DataConfig& config = rows_.config();
  const int64_t size = std::min(batch.keys.dim(0), samples.keys.dim(0) - first);
  buffer_.set_size(size);
  batch.first_sample = first;
  for (int64_t i = 0; i < size; ++i)
    batch.replaced_keys +=
        rows_.put(samples, first + i, batch.labels.data() + i * config.label_width(),
                  batch.dense.data() + i * config.dense_width(),
                  batch.keys.data() + i * rows_.key_columns(), counts_);
  return batch;
}

}  // namespace hlite::predict
