// A small data set and the config that fits it, both to be broken.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

// The shape of the data: changed by the breakage that a case describes.
struct SmallData {
  int64_t samples = 600;
  int dense = 3;
  std::vector<int64_t> sizes = {50, 7, 300, 1000};
  bool float_label = false, float_dense = false;
  bool global_keys = false, int64_keys = false, sum = true;
  uint64_t seed = 1;

  [[nodiscard]] uint32_t draw(uint64_t column, int64_t row, uint32_t below) const {
    return random::word(seed, column, static_cast<uint64_t>(row)) % below;
  }
  [[nodiscard]] uint32_t label(int64_t row) const { return draw(0, row, 4) == 0 ? 1 : 0; }
  [[nodiscard]] uint32_t integer(int64_t row, int d) const {
    return draw(10 + static_cast<uint64_t>(d), row, 90) *
           draw(20 + static_cast<uint64_t>(d), row, 3);
  }
  // Every table's last row occurs.
  [[nodiscard]] uint32_t key(int64_t row, size_t s) const {
    const auto size = static_cast<uint32_t>(sizes[s]);
    uint32_t first = 0;
    for (size_t t = 0; t < s && global_keys; ++t) first += static_cast<uint32_t>(sizes[t]);
    return first + (row % 97 == 5 ? size - 1 : draw(30 + s, row, size));
  }

  [[nodiscard]] std::vector<uint32_t> words() const {
    std::vector<uint32_t> out;
    for (int64_t r = 0; r < samples; ++r) {
      out.push_back(float_label ? std::bit_cast<uint32_t>(static_cast<float>(label(r))) : label(r));
      for (int d = 0; d < dense; ++d) {
        const uint32_t x = integer(r, d);
        out.push_back(float_dense ? std::bit_cast<uint32_t>(static_cast<float>(x) * 0.25f) : x);
      }
      for (size_t s = 0; s < sizes.size(); ++s) out.push_back(key(r, s));
    }
    return out;
  }
  [[nodiscard]] std::string raw() const { return bytes_of(words()); }

  static std::string bytes_of(const std::vector<uint32_t>& words) {
    return std::string(reinterpret_cast<const char*>(words.data()), words.size() * 4);
  }

  [[nodiscard]] std::string norm() const {
    std::vector<std::byte> out;
    data::append_norm_header({sum, samples, 1, dense, static_cast<int64_t>(sizes.size())}, out);
    std::vector<int32_t> nnz(sizes.size(), 1);
    std::vector<float> values;
    std::vector<uint32_t> keys;
    for (int64_t r = 0; r < samples; ++r) {
      const float y = static_cast<float>(label(r));
      values.clear();
      keys.clear();
      for (int d = 0; d < dense; ++d) values.push_back(static_cast<float>(integer(r, d)));
      for (size_t s = 0; s < sizes.size(); ++s) keys.push_back(key(r, s));
      data::append_norm_sample(sum, {&y, 1}, values, nnz, keys, out);
    }
    return std::string(reinterpret_cast<const char*>(out.data()), out.size());
  }

  [[nodiscard]] std::string criteo_text() const {
    std::string text;
    for (int64_t r = 0; r < samples; ++r) {
      text += label(r) != 0 ? "1" : "0";
      for (int d = 0; d < 13; ++d) text += "\t" + std::to_string(integer(r, d));
      for (size_t s = 0; s < 26; ++s) text += "\t" + std::to_string(10000000 + key(r, s % 4));
      text += "\n";
    }
    return text;
  }
};

inline std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// Fits SmallData{} as train.bin and SmallData{.samples = 200} as eval.bin.
inline std::string small_data_config(const std::string& format = "RawAsync") {
  const bool raw = format != "Norm";
  return R"({"solver": {"lr_policy": "fixed", "display": 10, "max_iter": 20, "gpu": [0],
  "batchsize": 32, "eval_batches": 10, "eval_interval": 10, "snapshot": 1000000, "snapshot_prefix": "s"},
 "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}},
 "layers": [
  {"name": "data", "type": "Data", "format": ")" +
         format + R"(", "source": ")" + (raw ? "train.bin" : "train.txt") +
         R"(", "eval_source": ")" + (raw ? "eval.bin" : "eval.txt") + R"(", "check": ")" +
         (raw ? "None" : "Sum") +
         R"(", "num_samples": 600, "eval_num_samples": 200,
   "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 3},
   "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 4, "max_nnz": 1,
    "slot_num": 4}])" +
         (raw ? R"(,
   "async_param": {"num_threads": 1, "num_batches_per_thread": 2, "io_block_size": 4096, "io_depth": 2,
    "io_alignment": 512, "shuffle": false})"
              : "") +
         R"(},
  {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
   "sparse_embedding_hparam": {"slot_size_array": [50, 7, 300, 1000], "embedding_vec_size": 4, "combiner": 0}}]})";
}

}  // namespace hlite::test
