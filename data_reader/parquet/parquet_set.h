// The Parquet files of a data set, and which of their columns are labels, dense features and keys.
//
//   source := a file, a folder of files, a _metadata.json, or a list of files (norm_format.h)
//
// A _metadata.json in that place (as NVTabular writes it) names the columns and says how many rows
// each file has:
//
//   {"file_stats": [{"file_name": "0.parquet", "num_rows": 1000}],
//    "labels": [{"col_name": "label", "index": 0}], "conts": [...], "cats": [...]}
//
// Without one, "columns" of the config's Data layer names them. The i-th of `cats` is slot i.
// Facts: HugeCTR 3.1's Parquet reader and NVTabular's output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/config/data_config.h"

namespace hlite::data::parquet {

inline constexpr const char* kMetadataName = "_metadata.json";

// Columns in the order labels, dense, keys; `index`, where it is not -1, is the column's place in
// the file.
struct NamedColumns {
  struct Column {
    std::string name;
    int64_t index = -1;
  };
  std::vector<Column> labels, conts, cats;
  std::string from;  // what says so: a file, or "layers[0].columns"
};

// The files that a source names, without opening a data file.
struct ParquetSource {
  std::vector<std::string> files;
  std::string metadata;  // path of the _metadata.json, or empty
  // Throws DataError or FileError.
  static ParquetSource find(const std::string& path);
};

// The columns that the _metadata.json names. Throws DataError "<file>:<line>: ...".
NamedColumns read_metadata_columns(const std::string& path);

class ParquetSet {
 public:
  // Reads the footer of every file. Throws DataError when one is damaged, lacks a column or has one
  // of a type that the config cannot use, or has other rows than _metadata.json says.
  ParquetSet(const config::DataConfig& config, const std::string& path);

  struct Group {
    size_t file = 0;
    int index = 0;          // in the file
    int64_t first_row = 0;  // of the set
    int64_t rows = 0;       // at least 1: empty groups are left out
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] const ParquetFile& file(size_t i) const { return files_[i].parquet; }
  [[nodiscard]] size_t files() const { return files_.size(); }
  // Labels, dense, keys: how many, and which column of a file is number i.
  [[nodiscard]] int64_t columns() const { return columns_; }
  [[nodiscard]] int column_of(size_t file, int64_t i) const {
    return files_[file].columns[static_cast<size_t>(i)];
  }
  // The group that holds a row of the set.
  [[nodiscard]] int64_t group_of(int64_t row) const;

 private:
  struct File {
    ParquetFile parquet;
    std::vector<int> columns;
  };
  void add(const config::DataConfig& config, const NamedColumns& named, const std::string& path);

  std::vector<File> files_;
  std::vector<Group> groups_;
  int64_t rows_ = 0, columns_ = 0;
};

}  // namespace hlite::data::parquet
