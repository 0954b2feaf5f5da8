#include "hugectr_lite/predict/sample_rows.h"

#include <algorithm>
#include <cmath>

#include "data_reader/record_issue.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/no_key.h"

namespace hlite::predict {

namespace {
// By key column. Lookups of inputs of a fixed length look for no absent keys.
std::vector<bool> columns_that_may_lack(const config::DataConfig& config) {
  std::vector<bool> may_lack;
  for (const config::SparseInputConfig& input : config.sparse)
    for (const int64_t hotness : input.hotness)
      may_lack.insert(may_lack.end(), static_cast<size_t>(hotness), !input.is_fixed_length);
  return may_lack;
}
}  // namespace

SampleRows::SampleRows(const config::DataConfig& config, std::span<const int64_t> slot_rows)
    : config_(config),
      layout_(config.key_layout()),
      key_check_(layout_, slot_rows, config.key_policy),
      may_lack_(columns_that_may_lack(config)) {}

void SampleRows::check_shapes(const SampleArrays& samples) const {
  const int64_t n = samples.keys.dim(0);
  const auto check = [&](const char* array, int64_t rows, int64_t columns, int64_t expected) {
    if (rows != n || columns != expected)
      raise<DataError>("{}: expected an array of shape [{}, {}], found [{}, {}]", array, n,
                       expected, rows, columns);
  };
  check("keys", n, samples.keys.dim(1), layout_.columns);
  check("dense", samples.dense.dim(0), samples.dense.dim(1), config_.dense_dim);
  if (samples.labels.data() != nullptr)
    check("label", samples.labels.dim(0), samples.labels.dim(1), config_.label_dim);
}

// What a decoder of records would refuse.
void SampleRows::check_values(const float* label, const float* dense, int64_t sample) const {
  for (int64_t l = 0; label != nullptr && l < config_.label_dim; ++l)
    if (!data::is_label(label[l], config_.label_dim))
      raise<DataError>("label: sample {}, label {}: expected a value in [0, 1], found {}", sample,
                       l, label[l]);
  for (int64_t d = 0; d < config_.dense_dim; ++d)
    if (!std::isfinite(dense[d]))
      raise<DataError>("dense: sample {}, feature {}: expected a finite value, found {}", sample, d,
                       dense[d]);
}

int64_t SampleRows::put(const SampleArrays& samples, int64_t sample, float* label, float* dense,
                        uint32_t* keys, KeyCounts& counts) const {
  const float* const given_label = samples.labels.data() == nullptr
                                       ? nullptr
                                       : samples.labels.data() + sample * config_.label_dim;
  const float* const features = samples.dense.data() + sample * config_.dense_dim;
  check_values(given_label, features, sample);
  if (label != nullptr && given_label != nullptr)
    std::copy_n(given_label, config_.label_dim, label);
  else if (label != nullptr)
    std::fill_n(label, config_.label_dim, 0.0f);
  std::copy_n(features, config_.dense_dim, dense);
  const int64_t* const from = samples.keys.data() + sample * layout_.columns;
  int64_t replaced = 0;
  for (int64_t c = 0; c < layout_.columns; ++c) {
    keys[c] = static_cast<uint32_t>(from[c]);
    const auto column = static_cast<size_t>(c);
    if (from[c] == -1 && may_lack_[column]) continue;  // kNoKey
    ++counts.present[column];
    const uint32_t last = key_check_.last_key(c);
    if (from[c] >= 0 && from[c] <= int64_t{last}) continue;
    if (!key_check_.replaces())
      raise<DataError>(
          "keys: sample {}, {}: expected a key below {}, the rows of its table, found {}", sample,
          layout_.describe(c), int64_t{last} + 1, from[c]);
    keys[c] = key_check_.replacement(c);
    ++counts.replaced[column];
    ++replaced;
  }
  return replaced;
}

KeyCounts SampleRows::no_counts() const {
  const std::vector<int64_t> zeros(static_cast<size_t>(layout_.columns), 0);
  return {.present = zeros, .replaced = zeros};
}

std::vector<int64_t> SampleRows::table_rows() const {
  std::vector<int64_t> rows;
  for (int64_t c = 0; c < layout_.columns; ++c) rows.push_back(int64_t{key_check_.last_key(c)} + 1);
  return rows;
}

std::vector<std::string> SampleRows::columns() const {
  std::vector<std::string> names;
  for (int64_t c = 0; c < layout_.columns; ++c) names.push_back(layout_.describe(c));
  return names;
}

}  // namespace hlite::predict
