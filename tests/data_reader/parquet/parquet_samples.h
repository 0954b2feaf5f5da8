// The samples of norm_file.h as Parquet files.
#pragma once

#include <string>
#include <vector>

#include "tests/data_reader/norm_file.h"
#include "tests/support/parquet_writer.h"

namespace hlite::test {

inline config::ColumnsConfig column_names(const NormShape& shape) {
  config::ColumnsConfig names;
  names.labels = {"click"};
  for (int64_t d = 0; d < shape.dense; ++d) names.conts.push_back("I" + std::to_string(d));
  for (size_t s = 0; s < shape.slot_rows.size(); ++s) names.cats.push_back("C" + std::to_string(s));
  return names;
}

inline config::DataConfig parquet_config(const NormShape& shape) {
  config::DataConfig config = shape.config();
  config.format = &config::data_format("Parquet");
  config.columns = column_names(shape);
  return config;
}

// Samples [begin, end): float labels and dense features, keys as int64; lists where a slot holds
// several.
inline ParquetFileText parquet_samples(const NormShape& shape, int64_t begin, int64_t end) {
  const config::ColumnsConfig names = column_names(shape);
  ParquetFileText file{.columns = {}, .rows = end - begin};
  std::vector<float> labels;
  for (int64_t i = begin; i < end; ++i) labels.push_back(static_cast<float>(label_of(i)));
  file.columns.push_back({names.labels[0], labels});
  for (int64_t d = 0; d < shape.dense; ++d) {
    std::vector<float> values;
    for (int64_t i = begin; i < end; ++i) values.push_back(norm_dense_of(i, d));
    file.columns.push_back({names.conts[static_cast<size_t>(d)], values});
  }
  int64_t column = 0, offset = 0;
  for (size_t s = 0; s < shape.slot_rows.size(); ++s) {
    std::vector<int64_t> keys, lengths;
    for (int64_t i = begin; i < end; ++i) {
      lengths.push_back(nnz_of(shape, i, static_cast<int64_t>(s)));
      for (int64_t k = 0; k < lengths.back(); ++k)
        keys.push_back(key_of(i, column + k, shape.slot_rows[s]) +
                       (shape.global_keys ? offset : 0));
    }
    if (shape.hotness[s] == 1) lengths.clear();
    file.columns.push_back({.name = names.cats[s], .values = keys, .lengths = lengths});
    column += shape.hotness[s];
    offset += shape.slot_rows[s];
  }
  return file;
}

// Files part0.parquet, ... of so many samples each, numbered through, and their list, whose path it
// returns.
inline std::string write_parquet_files(const TemporaryDirectory& folder, const NormShape& shape,
                                       const std::vector<int64_t>& samples, int64_t rows_a_group) {
  std::string list = std::to_string(samples.size()) + "\n";
  int64_t first = 0;
  for (size_t f = 0; f < samples.size(); ++f) {
    ParquetFileText file = parquet_samples(shape, first, first + samples[f]);
    file.rows_a_group = rows_a_group;
    const std::string name = "part" + std::to_string(f) + ".parquet";
    write_parquet(folder / name, file);
    list += name + "\n";
    first += samples[f];
  }
  write_text(folder / "list.txt", list);
  return folder / "list.txt";
}

}  // namespace hlite::test
