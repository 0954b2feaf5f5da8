// A Parquet file: its schema, its row groups, and the values of a column of one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data_reader/parquet/parquet_plugin.h"

namespace hlite::data::parquet {

struct ParquetColumn {
  std::string name, type;  // as messages call them
  ValueType values = ValueType::kOther;
  int16_t max_defined = 0, empty_list = -1;  // see ColumnInfo
  bool readable = false;
  bool all_null = false;
  [[nodiscard]] bool is_list() const { return empty_list >= 0; }
  [[nodiscard]] bool is_integer() const {
    return values >= ValueType::kInt32 && values <= ValueType::kUint64;
  }
  [[nodiscard]] bool is_number() const {
    return values >= ValueType::kBool && values <= ValueType::kDouble;
  }
};

struct RowGroup {
  int64_t first_row = 0;  // of the file
  int64_t rows = 0;
  int64_t stored_bytes = 0;
};

// The values of a column of one row group, from the first to the last, by one thread.
class ColumnCursor {
 public:
  // The next piece of at most that many levels; one of 0 levels at the end. Valid until the next
  // call. Throws DataError
  // "<file>: row group 2, column "C3": <reason>".
  Piece next(int64_t max_levels);
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  friend class ParquetFile;
  struct Close {
    void operator()(Column* column) const;
  };
  std::string place_;
  std::unique_ptr<Column, Close> column_;
};

// Not changed by reading: any number of threads.
class ParquetFile {
 public:
  // Reads the footer. Throws DataError "<file>: <reason>".
  explicit ParquetFile(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] const std::string& created_by() const { return created_by_; }
  [[nodiscard]] const std::vector<ParquetColumn>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<RowGroup>& groups() const { return groups_; }
  // Index of the column of that name.
  [[nodiscard]] std::optional<int> find(std::string_view name) const;
  // "\"label\", \"I1\", ...", all of them or the first ones, for messages.
  [[nodiscard]] std::string column_names() const;

  [[nodiscard]] ColumnCursor open_column(int group, int column) const;
  [[nodiscard]] int64_t stored_bytes(int group, int column) const;
  // "<file>: row group 2, column "C3""
  [[nodiscard]] std::string place(int group, int column) const;

 private:
  struct Close {
    void operator()(File* file) const;
  };
  std::string path_, created_by_;
  std::unique_ptr<File, Close> file_;
  int64_t rows_ = 0;
  std::vector<ParquetColumn> columns_;
  std::vector<RowGroup> groups_;
};

}  // namespace hlite::data::parquet
