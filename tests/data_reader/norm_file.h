// Norm files whose contents are known, sample by sample; written here from the format's definition.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "data_reader/batch_source.h"
#include "hugectr_lite/config/data_config.h"
#include "tests/data_reader/raw_file.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

struct NormShape {
  int64_t dense = 3;
  std::vector<int64_t> slot_rows{10, 50, 100'000};
  std::vector<int64_t> hotness{1, 1, 1};
  bool sum = false, int64_keys = false, global_keys = false, fixed_length = false;

  [[nodiscard]] config::DataConfig config() const {
    config::DataConfig c;
    c.format = &config::data_format("Norm");
    c.checksums = sum;
    c.label_dim = 1;
    c.dense_dim = dense;
    c.int64_keys = int64_keys;
    c.global_keys = global_keys;
    config::SparseInputConfig sparse;
    sparse.slot_num = static_cast<int64_t>(slot_rows.size());
    sparse.hotness = hotness;
    sparse.is_fixed_length = fixed_length;
    c.sparse.push_back(sparse);
    return c;
  }
};

// Number of keys of sample i in slot s: 0 to its hotness, always as many where that is 1 or fixed.
inline int64_t nnz_of(const NormShape& shape, int64_t i, int64_t s) {
  const int64_t most = shape.hotness[static_cast<size_t>(s)];
  if (most == 1 || shape.fixed_length) return most;
  return random::word(4, static_cast<uint64_t>(s), static_cast<uint64_t>(i)) % (most + 1);
}
inline float norm_dense_of(int64_t i, int64_t d) {
  return static_cast<float>(dense_of(i, d)) * -0.25f;
}

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// `payload` as the format frames it.
inline std::string norm_block(bool sum, const std::string& payload) {
  if (!sum) return payload;
  std::string out;
  put(out, static_cast<int32_t>(payload.size()));
  out += payload;
  int bytes = 0;
  for (const char c : payload) bytes += static_cast<unsigned char>(c);
  out += static_cast<char>(bytes % 256);
  return out;
}

inline std::string norm_sample(const NormShape& shape, int64_t i) {
  std::string p;
  put(p, static_cast<float>(label_of(i)));
  for (int64_t d = 0; d < shape.dense; ++d) put(p, norm_dense_of(i, d));
  int64_t column = 0, offset = 0;
  for (size_t s = 0; s < shape.slot_rows.size(); ++s) {
    const int64_t nnz = nnz_of(shape, i, static_cast<int64_t>(s));
    put(p, static_cast<int32_t>(nnz));
    for (int64_t k = 0; k < nnz; ++k) {
      const int64_t key =
          key_of(i, column + k, shape.slot_rows[s]) + (shape.global_keys ? offset : 0);
      if (shape.int64_keys)
        put(p, key);
      else
        put(p, static_cast<uint32_t>(key));
    }
    column += shape.hotness[s];
    offset += shape.slot_rows[s];
  }
  return norm_block(shape.sum, p);
}

inline std::string norm_header(const NormShape& shape, int64_t records) {
  std::string p;
  for (const int64_t number :
       {int64_t{shape.sum}, records, int64_t{1}, shape.dense,
        static_cast<int64_t>(shape.slot_rows.size()), int64_t{0}, int64_t{0}, int64_t{0}})
    put(p, number);
  return norm_block(shape.sum, p);
}

// Samples [begin, end).
inline std::string norm_text(const NormShape& shape, int64_t begin, int64_t end) {
  std::string out = norm_header(shape, end - begin);
  for (int64_t i = begin; i < end; ++i) out += norm_sample(shape, i);
  return out;
}

// Files of so many samples each, numbered through, and their list, whose path it returns.
inline std::string write_norm_files(const TemporaryDirectory& folder, const NormShape& shape,
                                    const std::vector<int64_t>& samples) {
  std::string list = std::to_string(samples.size()) + "\n";
  int64_t first = 0;
  for (size_t f = 0; f < samples.size(); ++f) {
    const std::string name = "part" + std::to_string(f) + ".norm";
    write_text(folder / name, norm_text(shape, first, first + samples[f]));
    list += name + "\n";
    first += samples[f];
  }
  write_text(folder / "list.txt", list);
  return folder / "list.txt";
}

// Whether row `row` of the batch is sample i.
inline bool is_norm_sample(const NormShape& shape, const data::HostBatch& b, int64_t row,
                           int64_t i) {
  bool same = b.labels(row, 0) == static_cast<float>(label_of(i));
  for (int64_t d = 0; d < shape.dense; ++d) same &= b.dense(row, d) == norm_dense_of(i, d);
  for (int64_t d = shape.dense; d < b.dense.dim(1); ++d) same &= b.dense(row, d) == 0;
  int64_t column = 0;
  for (size_t s = 0; s < shape.slot_rows.size(); ++s) {
    const int64_t nnz = nnz_of(shape, i, static_cast<int64_t>(s));
    for (int64_t k = 0; k < shape.hotness[s]; ++k, ++column)
      same &= b.keys(row, column) == (k < nnz ? key_of(i, column, shape.slot_rows[s]) : kNoKey);
  }
  return same;
}

}  // namespace hlite::test
