// Samples in a caller's arrays to batches of a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/key_check.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/view.h"

namespace hlite::predict {

// Rows of samples, one after the other.
struct SampleArrays {
  Matrix<const float> labels;  // [n, label_dim]; no data: none, they count as 0
  Matrix<const float> dense;   // [n, dense_dim], as the network sees them: of raw integers log(x+1)
  Matrix<const int64_t> keys;  // [n, key columns], local to each slot's table; -1: no
                               // key, where a sample may have fewer (is_fixed_length is false)
};

// By key column.
struct KeyCounts {
  std::vector<int64_t> present;   // keys of the samples
  std::vector<int64_t> replaced;  // those outside of their table, which key_policy replaced
};

class ArrayBatches {
 public:
  // `slot_rows`: rows of each slot's table. `most`: samples of a batch.
  ArrayBatches(const config::DataConfig& config, std::span<const int64_t> slot_rows, int64_t most);

  // Samples [first, first + size()) of the arrays, at most `most`; valid until the next call.
  // Throws DataError "<array>: expected ..., found ..." for a shape that is not the config's, a
  // label or feature that records could not have, or a key outside of its table where key_policy
  // refuses such.
  const data::HostBatch& fill(const SampleArrays& samples, int64_t first);
  // Keys of all batches since the latest fill() with `first` 0.
  [[nodiscard]] const KeyCounts& counts() const { return counts_; }
  // Names of the key columns, as in messages.
  [[nodiscard]] std::vector<std::string> columns() const;

 private:
  void check_shapes(const SampleArrays& samples) const;
  void check_values(const float* label, const float* dense, int64_t sample) const;
  void put_keys(const int64_t* from, int64_t sample, uint32_t* to);

  const config::DataConfig config_;
  const KeyLayout layout_;
  const data::KeyCheck key_check_;
  const std::vector<bool> may_lack_;  // [key columns]: whether a sample may have no key there
  data::BatchBuffer buffer_;
  KeyCounts counts_;
};

}  // namespace hlite::predict
