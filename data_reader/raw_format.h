// The Raw format: samples without header, framing or padding, little-endian.
//
//   file   := sample*
//   sample := label[label_dim], weight?, dense[dense_dim], key[hotness[0]], key[hotness[1]], ...
//   label  := int32, 0 or 1            (float32 in [0, 1] with float_label; any with real_label)
//   weight := float32 in any case, >= 0: that of the sample, with sample_weight
//   dense  := int32 x, x >= 0          (float32, finite, with float_dense)
//   key    := uint32 k, k < rows of the slot's table
//
// In a slot that varies a sample may have fewer keys than hotness says: the rest is kNoKey. A
// history's keys come first (history_check.h).
//
// Criteo: 1 + 13 + 26 values, 160 bytes; with several keys a slot (hotness 1 to 100, 214 in all)
// 1 + 13 + 214 values, 912 bytes. An integer x becomes the feature log(x + 1); a float is taken as
// it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "data_reader/history_check.h"
#include "data_reader/key_check.h"
#include "data_reader/label_rule.h"
#include "data_reader/record_issue.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data {

struct Manifest;

struct RawFormat {
  int64_t label_dim = 1;
  int64_t dense_dim = 0;
  KeyLayout keys;
  std::vector<bool> varying = {};  // [slots] see above; empty: none does
  std::vector<History> histories = {};
  bool float_label = false, float_dense = false;
  bool real_label = false, sample_weight = false;

  static RawFormat from(const config::DataConfig& config);
  static RawFormat from(const Manifest& manifest);  // of a raw format
  // Returns true if a sample may have no key in this key column.
  [[nodiscard]] bool varies(int64_t column) const {
    return !varying.empty() && varying[static_cast<size_t>(keys.slot_of(column))];
  }
  [[nodiscard]] LabelRule label_rule() const { return {label_dim, real_label, sample_weight}; }
  [[nodiscard]] int64_t label_width() const { return label_rule().width(); }
  [[nodiscard]] int64_t record_bytes() const {
    return 4 * (label_width() + dense_dim + keys.columns);
  }
  // "160 (1 label + 13 dense + 26 keys, 4 bytes each)", "912 (1 label + 13 dense + 214 keys of 26
  // slots, 4 bytes each)"
  [[nodiscard]] std::string describe_record() const;
};

// out[i] = log(x[i] + 1) rounded to float, for x[i] >= 0; other x[i] give some number. At most one
// unit in the last place from the exact value.
void log_plus_one(std::span<const int32_t> x, std::span<float> out);

// Turns records into batches. Holds its scratch memory, so one per thread.
class RawDecoder {
 public:
  // `slot_rows`: rows of each slot's table. `path` is for messages. `sink` receives values outside
  // of their ranges.
  RawDecoder(std::string path, const RawFormat& format, std::span<const int64_t> slot_rows,
             const config::KeyPolicyConfig& key_policy = {}, IssueSink& sink = refusing_sink());

  // Decodes `count` records, the samples from number `first_sample` of the file on, into rows
  // [row, row + count) of the batch. Returns how many keys the policy replaced. Keys that the sink
  // received are in the batch as they are in the file.
  int64_t decode(std::span<const std::byte> records, int64_t first_sample, int64_t count,
                 HostBatch& batch, int64_t row);

 private:
  // Throws DataError for a history that breaks a rule, whatever the sink.
  void report_issues(const std::byte* records, int64_t first_sample, int64_t count) const;

  std::string path_;
  RawFormat format_;
  KeyCheck key_check_;
  HistoryCheck histories_;
  IssueSink* sink_;
  std::vector<int32_t> integers_;  // dense features of a block of samples
  std::vector<float> logarithms_;
};

}  // namespace hlite::data
