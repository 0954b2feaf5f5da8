// The Data layer of a config as plain structs, apart from the rest: readers need no more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hugectr_lite/config/data_format.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::config {

enum class SlotDistribution { kDistributed, kLocalized };

struct SparseInputConfig {
  std::string top;
  SlotDistribution type =
      SlotDistribution::kDistributed;  // of the dialect; the embedding's own type counts
  int64_t slot_num = 0;
  int64_t max_feature_num_per_sample = 0;
  int64_t max_nnz = 0;
  std::vector<int64_t> hotness;  // [slot_num] most keys a sample has in each slot; with
  bool is_fixed_length = false;  // is_fixed_length exactly so many
  // (ours) Of a history: the most keys that are kept, the latest, in every slot alike, which is the
  // hotness; 0: no history. The tensor [B,1] of how many a sample has; may be empty.
  int64_t max_len = 0;
  std::string lengths;
  // Returns true if this input and the one before it in the list are parts of one history.
  [[nodiscard]] bool continues(const SparseInputConfig& before) const {
    return max_len > 0 && max_len == before.max_len && !lengths.empty() &&
           lengths == before.lengths;
  }
};

struct AsyncParamConfig {
  int64_t num_threads = 1, num_batches_per_thread = 4, io_block_size = 1 << 20, io_depth = 2,
          io_alignment = 512;
  bool shuffle = false;
  std::optional<bool> multi_hot_reader, is_dense_float;
};

// (ours) What to do with a key outside of its table.
enum class KeyPolicy {
  kError,  // the data is refused
  kClamp,  // it becomes the table's last row
  kOov,    // it becomes oov_key
  kHash,   // there is none: keys are hashes of tokens
};
struct KeyPolicyConfig {
  KeyPolicy kind = KeyPolicy::kError;
  uint32_t oov_key = 0;
  [[nodiscard]] bool replaces() const {
    return kind == KeyPolicy::kClamp || kind == KeyPolicy::kOov;
  }
};

// A config's two sets of data.
enum class Split { kTrain, kEval };

// (ours) Which columns of Parquet files are what, by their names.
struct ColumnsConfig {
  std::vector<std::string> labels, conts, cats;
};

// The Data layer, layers[0].
struct DataConfig {
  std::string name;
  const DataFormat* format = &data_format("Norm");
  std::string source, eval_source;  // as written; without evaluations eval_source may be empty
  std::string test_source;          // (ours) evaluated once, at the end; empty: none
  bool follow = false;              // (ours) source is a folder that grows
  bool checksums = false;           // "check": "Sum" of Norm files
  std::optional<int64_t> num_samples, eval_num_samples;
  int64_t cache_eval_data = 0;
  std::optional<int64_t> num_workers;    // threads that read, where async_param does not say it
  std::vector<int64_t> slot_size_array;  // may be empty
  // [slots] names the slot whose vocabulary each slot has, if a size is given as 0, which makes it
  // the next slot's; else empty.
  std::vector<int64_t> slot_vocabularies;
  bool float_label = false, float_dense = false;  // of the raw formats: float32, else int32
  KeyPolicyConfig key_policy;
  // Norm, Parquet: (ours) "keys": "global" for keys that count on over all tables, as the
  // original's are, else they are local to their slot's table; 64-bit keys (solver.input_key_type).
  bool global_keys = false, int64_keys = false;
  std::string label_top, dense_top;
  int64_t label_dim = 0, dense_dim = 0;
  bool sample_weight = false;  // (ours) after the labels of a sample comes its weight
  bool real_label = false;     // (ours) labels are any finite numbers, else in [0, 1]
  // (ours) Share of the samples with label 0 that the training data still has. Logits of
  // evaluations and predictions are those for all of them.
  double negative_share = 1;
  bool dense_aligned = false;  // "Auto": zero-pad the dense width to 8
  std::vector<SparseInputConfig> sparse;
  std::optional<ColumnsConfig> columns;  // of Parquet; none: a _metadata.json says it
  std::optional<AsyncParamConfig> async_param;
  bool shuffle = false;          // async_param.shuffle: the order of batches
  bool shuffle_samples = false;  // (ours) the order of samples, anew in each epoch

  // Numbers of a sample before its dense features: labels, and its weight if it has one.
  [[nodiscard]] int64_t label_width() const { return label_dim + (sample_weight ? 1 : 0); }
  [[nodiscard]] int64_t dense_width() const {
    return dense_aligned ? (dense_dim + 7) / 8 * 8 : dense_dim;
  }
  // Threads that read, of the formats that have no more to say about it.
  [[nodiscard]] int64_t readers() const {
    return async_param ? async_param->num_threads : num_workers.value_or(2);
  }
  // Returns how many samples of a set to use, the first ones; none: all. And the key that says so.
  [[nodiscard]] const std::optional<int64_t>& samples_of(Split split) const {
    return split == Split::kTrain ? num_samples : eval_num_samples;
  }
  static const char* samples_key(Split split) {
    return split == Split::kTrain ? "num_samples" : "eval_num_samples";
  }
  // The slots of all sparse inputs, one input after another.
  [[nodiscard]] KeyLayout key_layout() const;
};

}  // namespace hlite::config
