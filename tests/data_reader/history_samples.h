// Samples with a history of two slots between a slot of one key and one of up to three, as words of
// each format and as the rows of batches that they should become.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "hugectr_lite/core/no_key.h"
#include "tests/data_reader/norm_file.h"

namespace hlite::test {

struct HistoryShape {
  int64_t max_len = 4;
  bool sum = false, int64_keys = false, global_keys = false;
  std::vector<int64_t> slot_rows{30, 500, 7, 9};

  [[nodiscard]] config::DataConfig config(const char* format) const {
    config::DataConfig c;
    c.format = &config::data_format(format);
    const bool raw = c.format->fixed_records;
    c.label_dim = 1;
    c.dense_dim = 1;
    c.checksums = sum;
    c.int64_keys = int64_keys;
    c.global_keys = global_keys;
    c.float_label = c.float_dense = raw;
    c.sparse.resize(3);
    c.sparse[0].slot_num = c.sparse[2].slot_num = 1;
    c.sparse[0].hotness = {1};
    c.sparse[0].is_fixed_length = raw;
    c.sparse[1].slot_num = 2;
    c.sparse[1].hotness = {max_len, max_len};
    c.sparse[1].max_len = max_len;
    c.sparse[2].hotness = {3};
    c.columns = config::ColumnsConfig{
        .labels = {"click"}, .conts = {"I0"}, .cats = {"user", "items", "cates", "tags"}};
    return c;
  }
};

using KeyLists = std::vector<std::vector<int64_t>>;  // [slots]

// Lengths around max_len, and a list that is longer than a block of a reader.
inline KeyLists lists_of(const HistoryShape& shape, int64_t i) {
  const int64_t t = shape.max_len;
  const int64_t lengths[] = {0, 1, t, t + 1, std::max<int64_t>(0, t - 1), 3 * t + 5, 0};
  const int64_t length = i == 9 ? 2'000'000 : lengths[i % std::ssize(lengths)];
  KeyLists lists(4);
  lists[0] = {key_of(i, 0, shape.slot_rows[0])};
  for (int64_t k = 0; k < length; ++k) {
    lists[1].push_back(key_of(i, 100 + k, shape.slot_rows[1]));
    lists[2].push_back(key_of(i, 3'000'000 + k, shape.slot_rows[2]));
  }
  for (int64_t k = 0; k < i % 4; ++k) lists[3].push_back(key_of(i, 7 + k, shape.slot_rows[3]));
  int64_t offset = 0;
  for (size_t s = 0; s < lists.size(); offset += shape.slot_rows[s++])
    for (int64_t& key : lists[s]) key += shape.global_keys ? offset : 0;
  return lists;
}

inline std::string norm_history(const HistoryShape& shape, int64_t i, const KeyLists& lists) {
  std::string p;
  put(p, static_cast<float>(label_of(i)));
  put(p, norm_dense_of(i, 0));
  for (const auto& list : lists) {
    put(p, static_cast<int32_t>(list.size()));
    for (const int64_t key : list)
      shape.int64_keys ? put(p, key) : put(p, static_cast<uint32_t>(key));
  }
  return norm_block(shape.sum, p);
}

inline std::string norm_histories(const HistoryShape& shape, const std::vector<KeyLists>& samples) {
  std::string text = norm_header({.dense = 1, .slot_rows = shape.slot_rows, .sum = shape.sum},
                                 std::ssize(samples));
  for (size_t i = 0; i < samples.size(); ++i)
    text += norm_history(shape, static_cast<int64_t>(i), samples[i]);
  return text;
}

// The columns of a sample in a batch.
inline std::vector<uint32_t> history_row(const HistoryShape& shape, const KeyLists& lists) {
  std::vector<uint32_t> row;
  const int64_t columns[] = {1, shape.max_len, shape.max_len, 3};
  int64_t offset = 0;
  for (size_t s = 0; s < lists.size(); offset += shape.slot_rows[s++]) {
    const int64_t n = std::ssize(lists[s]), kept = std::min(n, columns[s]);
    for (int64_t k = 0; k < columns[s]; ++k)
      row.push_back(k < kept ? static_cast<uint32_t>(lists[s][static_cast<size_t>(n - kept + k)] -
                                                     (shape.global_keys ? offset : 0))
                             : kNoKey);
  }
  return row;
}

inline std::string raw_histories(const HistoryShape& shape, const std::vector<KeyLists>& samples) {
  std::string text;
  for (size_t i = 0; i < samples.size(); ++i) {
    put(text, static_cast<float>(label_of(static_cast<int64_t>(i))));
    put(text, norm_dense_of(static_cast<int64_t>(i), 0));
    for (const uint32_t key : history_row(shape, samples[i])) put(text, key);
  }
  return text;
}

inline std::vector<KeyLists> history_samples(const HistoryShape& shape, int64_t n) {
  std::vector<KeyLists> samples;
  for (int64_t i = 0; i < n; ++i) samples.push_back(lists_of(shape, i));
  return samples;
}

// Whether a source gives these samples in batches.
inline bool gives_histories(data::BatchSource& source, const HistoryShape& shape,
                            const std::vector<KeyLists>& samples) {
  bool same = source.samples() == std::ssize(samples);
  for (size_t i = 0; same && i < samples.size();) {
    const data::HostBatch& batch = source.next();
    same &= batch.size > 0;
    for (int64_t r = 0; same && r < batch.size; ++r, ++i) {
      const auto row = history_row(shape, samples[i]);
      same &= std::equal(row.begin(), row.end(), batch.keys.row(r)) &&
              batch.dense(r, 0) == norm_dense_of(static_cast<int64_t>(i), 0);
    }
  }
  return same;
}

}  // namespace hlite::test
