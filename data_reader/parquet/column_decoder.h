// Columns of Parquet files to the 32-bit words of batches: labels and dense features as float, keys
// local to their slot's table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data_reader/history_check.h"
#include "data_reader/key_check.h"
#include "data_reader/label_rule.h"
#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/config/data_config.h"
#include "hugectr_lite/core/key_layout.h"

namespace hlite::data::parquet {

// The first rows of a column of a row group.
struct DecodedColumn {
  std::unique_ptr<uint32_t[]> words;  // [rows, width]
  std::vector<int64_t>
      replaced;  // rows in which the key policy replaced a key, once for each key, in order
  std::vector<int64_t> lengths;  // [rows] of a history: keys in the file
  // The first row, counted in the group, that cannot be used, and why; those before it are good.
  int64_t bad_row = -1;
  std::string problem;
};

// Not changed by decoding: any number of threads.
class ColumnDecoder {
 public:
  // `slot_rows`: rows of each slot's table.
  ColumnDecoder(const config::DataConfig& config, std::span<const int64_t> slot_rows);

  // Labels, the sample weight if there is one, dense features, slots: column i of a ParquetSet.
  [[nodiscard]] int64_t columns() const { return first_slot() + layout_.slots(); }
  // Words of a row: 1, or the slot's maximum number of keys.
  [[nodiscard]] int64_t width(int64_t column) const {
    return is_slot(column) ? layout_.hotness[static_cast<size_t>(slot(column))] : 1;
  }
  [[nodiscard]] int64_t label_width() const { return labels_.width(); }
  [[nodiscard]] bool is_slot(int64_t column) const { return column >= first_slot(); }
  [[nodiscard]] int64_t slot(int64_t column) const { return column - first_slot(); }

  // Decodes the first `rows` rows of column number `column`, which is `index` in the file. What is
  // wrong with the data goes to the result, and nothing is thrown for it. Missing values are wrong;
  // an empty list is not.
  [[nodiscard]] DecodedColumn decode(const ParquetFile& file, int group, int index, int64_t column,
                                     int64_t rows) const;
  // The first row, counted in the group, in which the lists of two columns of one history differ in
  // length.
  struct Uneven {
    int64_t row, a, b;
  };
  [[nodiscard]] std::optional<Uneven> find_uneven(std::span<const DecodedColumn> columns) const;

 private:
  struct Job;
  template <typename T>
  void take_numbers(Job& job, const T* values, int64_t count) const;
  template <typename T>
  void take_keys(Job& job, const T* values, int64_t count) const;
  template <typename T>
  bool put_key(Job& job, T value, uint32_t* out, int64_t row) const;
  template <typename T>
  void take_lists(Job& job, const Piece& piece) const;
  bool put_latest(Job& job) const;
  void take(Job& job, const Piece& piece) const;
  void finish_list(Job& job) const;
  [[nodiscard]] int64_t first_slot() const { return labels_.width() + dense_dim_; }

  LabelRule labels_;
  int64_t dense_dim_;
  KeyLayout layout_;
  std::vector<bool> fixed_length_;  // [slots]
  KeyCheck key_check_;
  HistoryCheck histories_;
};

}  // namespace hlite::data::parquet
