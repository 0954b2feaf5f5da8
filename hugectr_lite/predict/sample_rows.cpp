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
      labels_(data::LabelRule::from(config)),
      layout_(config.key_layout()),
      key_check_(layout_, slot_rows, config.key_policy),
      histories_(config),
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
  if (samples.weights.data() == nullptr) return;
  if (!labels_.weighted)
    raise<DataError>(
        "sample_weight: expected none, as the config's Data layer has none; \"sample_weight\": "
        "true "
        "in its label makes it take weights");
  check("sample_weight", samples.weights.dim(0), samples.weights.dim(1), 1);
}

// Refuses what a decoder of records would refuse.
void SampleRows::check_values(const SampleArrays& samples, int64_t sample) const {
  const auto check_label = [&](const char* array, int64_t column, float value) {
    if (labels_.allows(column, value)) return;
    const auto [what, expected] = data::words_of(labels_.issue(column), column);
    raise<DataError>("{}: sample {}, {}: expected {}, found {}", array, sample, what, expected,
                     value);
  };
  for (int64_t l = 0; samples.labels.data() != nullptr && l < config_.label_dim; ++l)
    check_label("label", l, samples.labels(sample, l));
  if (samples.weights.data() != nullptr)
    check_label("sample_weight", config_.label_dim, samples.weights(sample, 0));
  const float* const dense = samples.dense.data() + sample * config_.dense_dim;
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
  check_values(samples, sample);
  if (label != nullptr && given_label != nullptr)
    std::copy_n(given_label, config_.label_dim, label);
  else if (label != nullptr)
    std::fill_n(label, config_.label_dim, 0.0f);
  if (label != nullptr && labels_.weighted)
    label[config_.label_dim] =
        samples.weights.data() == nullptr ? 1.0f : samples.weights(sample, 0);
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
  if (histories_.breaks(keys))
    raise<DataError>("keys: sample {}, {}", sample, histories_.problem(keys));
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
