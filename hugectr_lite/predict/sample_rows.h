// Samples of a caller's arrays as rows of a model's batches, checked as a decoder of records checks
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/history_check.h"
#include "data_reader/key_check.h"
#include "data_reader/label_rule.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/view.h"

namespace hlite::predict {

// Rows of samples, one after the other.
struct SampleArrays {
  Matrix<const float> labels;  // [n, label_dim]; no data: none, they count as 0
  Matrix<const float> dense;   // [n, dense_dim], as the network sees them: of raw integers log(x+1)
  Matrix<const int64_t> keys;  // [n, key columns], local to each slot's table; -1: no
                               // key, where a sample may have fewer (is_fixed_length is false); of
                               // a history, which has its keys first, oldest first, after them
  Matrix<const float> weights = {};  // [n, 1], of the config's sample_weight; no data: all are 1
};

// By key column.
struct KeyCounts {
  std::vector<int64_t> present;   // keys of the samples
  std::vector<int64_t> replaced;  // those outside of their table, which key_policy replaced
};

// Several threads may use one at the same time.
class SampleRows {
 public:
  // `slot_rows`: rows of each slot's table.
  SampleRows(const config::DataConfig& config, std::span<const int64_t> slot_rows);

  // Throws DataError "<array>: expected ..., found ..." for shapes that are not the config's.
  void check_shapes(const SampleArrays& samples) const;
  // Writes sample `sample` to a row of a batch: label [label_width] (null: not written), dense
  // [dense_dim], keys [columns]. Adds to `counts`; returns how many keys were replaced. Throws
  // DataError for a label, weight, feature or history that records could not have, or a key outside of
  // its table where key_policy refuses such.
  int64_t put(const SampleArrays& samples, int64_t sample, float* label, float* dense,
              uint32_t* keys, KeyCounts& counts) const;

  [[nodiscard]] const config::DataConfig& config() const { return config_; }
  [[nodiscard]] int64_t key_columns() const { return layout_.columns; }
  // No keys yet.
  [[nodiscard]] KeyCounts no_counts() const;
  // Rows of each key column's table.
  [[nodiscard]] std::vector<int64_t> table_rows() const;
  // Names of the key columns, as in messages.
  [[nodiscard]] std::vector<std::string> columns() const;

 private:
  void check_values(const SampleArrays& samples, int64_t sample) const;

  const config::DataConfig config_;
  const data::LabelRule labels_;
  const KeyLayout layout_;
  const data::KeyCheck key_check_;
  const data::HistoryCheck histories_;
  const std::vector<bool> may_lack_;  // [key columns]: whether a sample may have no key there
};

}  // namespace hlite::predict
