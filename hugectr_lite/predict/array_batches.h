// Samples in a caller's arrays to batches of a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/predict/sample_rows.h"

namespace hlite::predict {

class ArrayBatches {
 public:
  // `slot_rows`: rows of each slot's table. `most`: samples of a batch.
  ArrayBatches(const config::DataConfig& config, std::span<const int64_t> slot_rows, int64_t most);

  // Samples [first, first + size()) of the arrays, at most `most`; valid until the next call.
  // Throws DataError as SampleRows does.
  const data::HostBatch& fill(const SampleArrays& samples, int64_t first);
  // Keys of all batches since the latest fill() with `first` 0.
  [[nodiscard]] const KeyCounts& counts() const { return counts_; }
  // Names of the key columns, as in messages.
  [[nodiscard]] std::vector<std::string> columns() const { return rows_.columns(); }

 private:
  const SampleRows rows_;
  data::BatchBuffer buffer_;
  KeyCounts counts_;
};

}  // namespace hlite::predict
