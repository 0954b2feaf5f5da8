// Writes Parquet files for tests, by Arrow's writer: every type, missing values, lists, row groups,
// pages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hlite::test {

struct ParquetColumn {
  std::string name;
  // Those that are there, one after the other.
  std::variant<std::vector<int32_t>, std::vector<int64_t>, std::vector<uint32_t>,
               std::vector<uint64_t>, std::vector<int8_t>, std::vector<float>, std::vector<double>,
               std::vector<std::string>, std::vector<bool>>
      values;
  // Which values, or elements of lists, are there. Empty: all, and the column says that they must
  // be.
  std::vector<bool> valid = {};
  // Of lists: elements of each, -1: no list. Empty: no column of lists.
  std::vector<int64_t> lengths = {};
  bool date = false;  // int32 values that are days
};

struct ParquetFileText {
  std::vector<ParquetColumn> columns;
  int64_t rows = 0;
  int64_t rows_a_group = 1 << 20;
  int64_t rows_a_page = 1 << 20;
  bool dictionary = true, compressed = false, checksums = false;
};

void write_parquet(const std::string& path, const ParquetFileText& file);

}  // namespace hlite::test
