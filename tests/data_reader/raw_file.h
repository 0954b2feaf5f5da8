// Raw files whose contents are known, sample by sample.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/random.h"

namespace hlite::test {

struct RawShape {
  int64_t dense = 13;
  std::vector<int64_t> slot_rows;
  bool float_label_dense = false;
  bool aligned = false;
  std::vector<int64_t> hotness = {};  // empty: one key a slot
  bool int_label = false;             // with float_label_dense: only dense features are floats
  bool varying = false;               // a sample may lack keys

  [[nodiscard]] config::DataConfig config(
      const config::DataFormat* format = &config::data_format("RawAsync")) const {
    config::DataConfig c;
    c.format = format;
    c.label_dim = 1;
    c.dense_dim = dense;
    c.dense_aligned = aligned;
    c.float_dense = float_label_dense;
    c.float_label = float_label_dense && !int_label;
    config::SparseInputConfig sparse;
    sparse.slot_num = static_cast<int64_t>(slot_rows.size());
    sparse.hotness = layout().hotness;
    sparse.is_fixed_length = !varying;
    c.sparse.push_back(sparse);
    return c;
  }
  [[nodiscard]] KeyLayout layout() const {
    return hotness.empty() ? KeyLayout::one_hot(static_cast<int64_t>(slot_rows.size()))
                           : KeyLayout(hotness);
  }
  [[nodiscard]] int64_t values() const { return 1 + dense + layout().columns; }
};

// What sample i holds: drawn by i alone.
inline int32_t label_of(int64_t i) {
  return static_cast<int32_t>(random::word(1, 0, static_cast<uint64_t>(i)) & 1);
}
inline int32_t dense_of(int64_t i, int64_t d) {
  // Small and large numbers alike.
  const uint32_t w = random::word(2, static_cast<uint64_t>(d), static_cast<uint64_t>(i));
  return static_cast<int32_t>((w & 0x7fffffff) >> (w >> 27));
}
// In key column c, of a table of that many rows.
inline uint32_t key_of(int64_t i, int64_t c, int64_t rows) {
  const uint64_t w = random::word(3, static_cast<uint64_t>(c), static_cast<uint64_t>(i));
  return static_cast<uint32_t>((w * static_cast<uint64_t>(rows)) >> 32);
}
// The feature that the model sees.
inline float feature_of(const RawShape& shape, int64_t i, int64_t d) {
  const int32_t x = dense_of(i, d);
  return shape.float_label_dense ? static_cast<float>(x) * -0.25f
                                 : static_cast<float>(std::log(static_cast<double>(x) + 1));
}

// The bytes of samples [0, n) as 32-bit words.
inline std::vector<uint32_t> raw_words(const RawShape& shape, int64_t n) {
  std::vector<uint32_t> words;
  const KeyLayout layout = shape.layout();
  const auto put = [&](auto value) {
    static_assert(sizeof(value) == 4);
    uint32_t w;
    std::memcpy(&w, &value, 4);
    words.push_back(w);
  };
  for (int64_t i = 0; i < n; ++i) {
    if (shape.float_label_dense) {
      if (shape.int_label)
        put(label_of(i));
      else
        put(static_cast<float>(label_of(i)));
      for (int64_t d = 0; d < shape.dense; ++d) put(feature_of(shape, i, d));
    } else {
      put(label_of(i));
      for (int64_t d = 0; d < shape.dense; ++d) put(dense_of(i, d));
    }
    for (int64_t c = 0; c < layout.columns; ++c)
      put(key_of(i, c, shape.slot_rows[static_cast<size_t>(layout.slot_of(c))]));
  }
  return words;
}

inline std::string raw_text(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), 4 * words.size()};
}

}  // namespace hlite::test
